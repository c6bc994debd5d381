"""Fine-tunes a model by LoRA with Hugging Face's Trainer, on the bytes of a text.

    weir launch examples/python/diloco.yaml -- python3 examples/python/hf_lora.py MODEL TEXT OUT

MODEL: a folder, such as a Llama's. OUT: a folder for the adapter, which PEFT loads. Without
`weir launch` the plain Trainer trains alone. Needs torch, transformers and peft.
"""

import os
import sys

import numpy as np
import torch
import weir
from weir.transformers import RANK, TrainerMixin, WeirOptions  # before TrainingArguments

import peft
import transformers

CONTEXT = 64


class Text(torch.utils.data.Dataset):
    """Sequences of bytes; the last tenth validates."""

    def __init__(self, path, valid):
        text = np.fromfile(path, np.uint8).astype(np.int64)
        cut = len(text) * 9 // 10 // CONTEXT * CONTEXT
        text = text[cut:] if valid else text[:cut]
        self.rows = text[: len(text) // CONTEXT * CONTEXT].reshape(-1, CONTEXT)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i], "labels": self.rows[i]}


class WeirTrainer(TrainerMixin, transformers.Trainer):
    weir_options = WeirOptions(
        every=10, outer=weir.Optimizer("nesterov", lr=0.7, momentum=0.5), push="int8"
    )


def main(folder, path, out):
    torch.set_num_threads(1)
    transformers.set_seed(1)  # all workers begin with the same adapters
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    targets = ["q_proj", "v_proj", "gate_proj", "up_proj", "down_proj"]
    lora = peft.LoraConfig(r=16, lora_alpha=32, target_modules=targets, task_type="CAUSAL_LM")
    model = peft.get_peft_model(model, lora)
    args = transformers.TrainingArguments(
        output_dir=f"{out}.tmp",
        num_train_epochs=float(os.environ.get("PASSES", 1)),
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        learning_rate=4e-3,
        lr_scheduler_type="cosine",
        warmup_steps=20,
        logging_steps=10,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        seed=1,
    )
    kind = WeirTrainer if "WEIR_LEDGER" in os.environ else transformers.Trainer
    data = {"train_dataset": Text(path, False), "eval_dataset": Text(path, True)}
    trainer = kind(model=model, args=args, **data)
    trainer.train()
    if RANK == 0:
        model.save_pretrained(out)
        print(f"validation loss {trainer.evaluate()['eval_loss']:.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
