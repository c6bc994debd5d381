#!/usr/bin/env python3
"""Writes a click log as a shop's warehouse exports it, as CSV with a header.

    shop_log.py ROWS [SEED] > shop.csv

Each row is an impression of an item. Users like some tags; a tag among an item's, a history with
the same tags and a low price make a click likelier. So a model has something to learn, and a model
that reads ids, bags, histories and numbers learns more than one that reads a part of them.
"""
import csv
import math
import random
import sys

USERS, ITEMS = 600, 300
TAGS = ["books", "garden", "kitchen", "music", "outdoor", "toys"]
DEVICES = ["phone", "phone", "tablet", "desktop"]
HEADER = ["impression_id", "ts", "user_id", "item_id", "tags", "last_items", "price", "device", "clicked"]


def shop(draw):
    """The items' tags and prices, and the users' likings."""
    tags = [draw.sample(TAGS, 1 + draw.randrange(3)) for _ in range(ITEMS)]
    prices = [round(math.exp(draw.gauss(3, 1)), 2) for _ in range(ITEMS)]
    liked = [draw.sample(TAGS, 2) for _ in range(USERS)]
    return tags, prices, liked


def main():
    rows = int(sys.argv[1])
    draw = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    tags, prices, liked = shop(draw)
    appeal = [draw.gauss(0, 1) for _ in range(ITEMS)]
    history = [[] for _ in range(USERS)]
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(HEADER)
    for i in range(rows):
        user, item = int(USERS * draw.random() ** 2), int(ITEMS * draw.random() ** 2)
        device = draw.choice(DEVICES)
        likes = sum(tag in liked[user] for tag in tags[item])
        logit = -1.5 + 1.2 * likes + 0.8 * appeal[item] - 0.3 * (math.log(prices[item]) - 3) - 0.5 * (device == "desktop")
        clicked = draw.random() < 1 / (1 + math.exp(-logit))
        past = " ".join(f"i{k}" for k in history[user])
        out.writerow([f"m{i}", 1767225600 + 40 * i, f"u{user}", f"i{item}", "|".join(tags[item]), past, prices[item], device, int(clicked)])
        if clicked:
            history[user] = (history[user] + [item])[-8:]


if __name__ == "__main__":
    main()
