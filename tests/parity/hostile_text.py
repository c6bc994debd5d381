"""Strings that tokenizers get wrong, from a seed: every plane of Unicode, combining marks, joined
emoji, both directions, long runs, contractions, control characters, replaced bytes, and special
tokens inside text."""
import random
import unicodedata

WORDS = ("the quick brown fox jumps over a lazy dog don't can't we'll I'm they've she'd it's O'Brien 's 'S 'LL 'Ve 'rE naïve café Straße "
         "ЭТО тоже слово ελληνικά עברית العربية हिन्दी 日本語 中文 한국어 ไทย tokenizer 3.14159 1,000,000 2024-11-25 0x7fff ½ Ⅷ ٣٤٥ "
         "https://example.com/a?b=c&d=%20 foo_bar fooBar snake__case C++ #!/bin/sh <div class=\"x\"> {\"a\": [1, 2]} e=mc² ﬁne ſo ǅ").split()
EMOJI = ["👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪🇫🇷", "☺️", "❤️‍🔥", "1️⃣", "🧑🏿‍🚀", "⚧"]
SPACES = [" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u2003", "\u3000", "\u2028", "\u0085", "\u1680", "\u180e", "\u200b", "\u202f", "\x0b", "\x0c", "\n\n\n", "   \n  "]
MARKS = [chr(c) for c in list(range(0x300, 0x330)) + [0x20dd, 0x483, 0x5b0, 0x64b, 0x93c, 0xe34, 0x1ab0, 0xfe0f, 0xfe20]]
DIRECTIONS = ["\u200e", "\u200f", "\u202a", "\u202b", "\u202c", "\u202e", "\u2066", "\u2067", "\u2069", "\u061c"]
PLANES = [(0x20, 0x7e), (0x80, 0x24f), (0x250, 0x1fff), (0x2000, 0x2fff), (0x3000, 0xd7ff), (0xe000, 0xffff), (0x10000, 0x1ffff), (0x20000, 0x2ffff),
          (0x30000, 0x3ffff), (0x40000, 0xdffff), (0xe0000, 0xeffff), (0xf0000, 0x10ffff)]
SPECIAL = ["<|endoftext|>", "<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<s>", "</s>", "<unk>", "<0x41>", "▁", "▁▁", "[INST]", "<|im_start|>",
           "<left>", "<right>", "<word>", "Normal", "<|endoftext", "|>", "Ġ", "Ċ"]


def any_character(r):
    low, high = r.choice(PLANES)
    return chr(r.randint(low, high))


def word(r):
    w = r.choice(WORDS)
    return w if r.random() < 0.7 else w.upper() if r.random() < 0.5 else w.title()


def piece(r):
    kind = r.randrange(16)
    if kind < 4:
        return word(r)
    if kind == 4:
        return "".join(any_character(r) for _ in range(r.randint(1, 6)))
    if kind == 5:
        return r.choice(EMOJI)
    if kind == 6:
        return word(r) + "".join(r.choice(MARKS) for _ in range(r.randint(1, 4)))
    if kind == 7:
        return r.choice(DIRECTIONS) + word(r)
    if kind == 8:
        return r.choice(SPACES) * r.choice([1, 1, 2, 3, 17])
    if kind == 9:
        return r.choice("0123456789") * r.choice([1, 2, 3, 4, 5, 30])
    if kind == 10:
        return "".join(chr(r.randrange(0x20)) for _ in range(r.randint(1, 3))) + chr(r.choice([0x7f, 0x80, 0x9f, 0xad, 0xfeff, 0xfffe]))
    if kind == 11:
        return bytes(r.randrange(256) for _ in range(r.randint(1, 8))).decode("utf-8", "replace")
    if kind == 12:
        return r.choice(SPECIAL)
    if kind == 13:
        return r.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~«»“”‘’—…") * r.choice([1, 1, 2, 3, 20])
    if kind == 14:
        return "".join(chr(r.randint(0x20, 0x7e)) for _ in range(r.randint(1, 12)))
    return word(r) + r.choice(["'s", "'t", "'RE", "'Ve", "'m", "'ll", "'D", "’s", "'ſ"])


def strings(count, seed, pieces=12):
    r = random.Random(seed)
    out = ["", " ", "\n", "a", "\x00", "'", "\ufffd"]
    while len(out) < count:
        out.append("".join(piece(r) + r.choice(["", "", " ", " ", "  ", "\n"]) for _ in range(r.randint(1, pieces))))
    return out[:count]


def old(text):
    """Whether all characters are in Unicode 3.2: their normal forms have not changed since."""
    return all(unicodedata.ucd_3_2_0.category(c) != "Cn" for c in text)
