#!/usr/bin/env python3
"""Renders conversations with Jinja, as transformers does, by the chat templates that
worker/data/tokens/chat.c knows.

    make_chats.py > tests/golden/chats.jsonl

A line: {"format", "template", "bos", "eos", "messages", "text", "answers": [[begin, end] of the
counted text, in UTF-8 bytes]}. Needs the package jinja2."""
import json
import sys

import jinja2
import jinja2.sandbox

CHATML = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
ASK_CHATML = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
LLAMA2 = ("{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}"
          "{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
          "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
          "{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}"
          "{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
          "{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}")
LLAMA3 = ("{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ "
          "message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}")
ASK_LLAMA3 = "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
# Alpaca's format is not a model's template; this writes it in Jinja.
ALPACA = ("{% if messages[0]['role'] == 'system' %}{{ messages[0]['content'] | trim }}{% set turns = messages[1:] %}{% else %}{{ 'Below is an instruction that describes a "
          "task. Write a response that appropriately completes the request.' }}{% set turns = messages %}{% endif %}{% for message in turns %}"
          "{{ '\n\n### ' + ('Instruction' if message['role'] == 'user' else 'Response') + ':\n' + message['content'] | trim }}"
          "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}")
TEMPLATES = [("chatml", CHATML), ("chatml", CHATML + ASK_CHATML), ("llama2", LLAMA2), ("llama3", LLAMA3), ("llama3", LLAMA3 + ASK_LLAMA3), ("alpaca", ALPACA)]

SYSTEM = {"role": "system", "content": " You answer\nin rhymes. "}
CHATS = [
    [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi there."}],
    [SYSTEM, {"role": "user", "content": "  two  spaces \n"}, {"role": "assistant", "content": "\u00a0\u3000 as wide \u2028\t"}],
    [{"role": "user", "content": "1"}, {"role": "assistant", "content": "one"}, {"role": "user", "content": "2"}, {"role": "assistant", "content": "two <|im_end|>"}],
    [SYSTEM, {"role": "user", "content": "日本\x1c"}, {"role": "assistant", "content": "\x1f語"}, {"role": "user", "content": "more"}],
    [SYSTEM, {"role": "user", "content": " \n "}, {"role": "assistant", "content": "  "}],
]


def render(template, messages, bos, eos):
    # the same environment as in transformers
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    return env.from_string(template).render(messages=messages, bos_token=bos, eos_token=eos, add_generation_prompt=False)


def answers(name, template, messages, bos, eos):
    """Finds each answer by rendering with and without it: from its message's header to its end
    token."""
    out = []
    for i, m in enumerate(messages):
        if m["role"] != "assistant":
            continue
        whole, before = render(template, messages[: i + 1], bos, eos), render(template, messages[:i], bos, eos)
        header = {"chatml": "<|im_start|>assistant\n", "llama2": "", "llama3": "<|start_header_id|>assistant<|end_header_id|>\n\n", "alpaca": "\n\n### Response:\n"}[name]
        assert whole.startswith(before + header)
        end = len(whole) - (1 if name == "chatml" else 0)
        out.append([len((before + header).encode()), len(whole[:end].encode())])
    return out


def main():
    for name, template in TEMPLATES:
        bos, eos = ("<|begin_of_text|>", "<|eot_id|>") if name == "llama3" else ("<s>", "</s>")
        for messages in CHATS:
            text = render(template, messages, bos, eos)
            json.dump({"format": name, "template": template, "bos": bos, "eos": eos, "messages": messages, "text": text,
                       "answers": answers(name, template, messages, bos, eos)}, sys.stdout, ensure_ascii=False)
            print()


if __name__ == "__main__":
    main()
