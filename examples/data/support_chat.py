#!/usr/bin/env python3
"""Writes conversations as a help desk exports them, as JSON lines.

    support_chat.py LINES [SEED] > chats.jsonl

A customer names an order; the answer depends on the first letter of its number. All else in a
question is noise, so a small loss can only come from answers.
"""
import json
import random
import sys


def main():
    lines = int(sys.argv[1])
    draw = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    for _ in range(lines):
        late = draw.random() < 0.5
        order = draw.choice("ABCDE" if late else "VWXYZ") + "".join(draw.choice("0123456789") for _ in range(6))
        answer = "It comes on Friday." if late else "It has arrived."
        messages = [{"role": "user", "content": f"{order}: where is it?"}, {"role": "assistant", "content": answer}]
        print(json.dumps({"messages": messages}))


if __name__ == "__main__":
    main()
