#!/usr/bin/env python3
"""Writes tables that look like public data sets, with rows from a known model.

    tables.py NAME ROWS OUT [SEED]

NAME is movielens, criteo, avazu, taobao, adult or amazon: the columns, their names and the form of
their values are those of the data set's files; the values are drawn. A row is positive with a
probability that depends on some of its columns, so that a model has something to learn.
"""
import csv
import math
import random
import sys

GENRES = ["Action", "Comedy", "Crime", "Drama", "Film-Noir", "Horror", "Romance", "Sci-Fi", "War"]


class Draw:
    """Values of a row. Each id has an effect, the same each time it is drawn."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.seed = seed

    def effect(self, *of):
        return random.Random(f"{self.seed} {of}").gauss(0, 1)

    def some(self, most):
        """A number below `most`, small ones more often."""
        return min(most - 1, int(most * self.random.random() ** 3))

    def happens(self, logit):
        return self.random.random() < 1 / (1 + math.exp(-logit))

    def word(self, *of):
        return f"{random.Random(f'word {of}').getrandbits(32):08x}"


def movielens(draw, row):
    """ratings.csv joined with movies.csv of MovieLens."""
    user, movie = draw.some(600), draw.some(900)
    genres = sorted(random.Random(movie).sample(GENRES, 1 + movie % 3))
    liking = draw.effect("user", user) + draw.effect("movie", movie) + draw.effect(genres[0]) + draw.random.gauss(0, 1)
    return {"userId": user + 1, "movieId": movie * 7 + 1, "rating": min(5, max(0.5, round(2 * (3.4 + 0.8 * liking)) / 2)),
            "timestamp": 1_100_000_000 + row * 900 + draw.some(800), "title": f'The {GENRES[movie % 9]} of, "Part {movie}" (19{movie % 90 + 10})',
            "genres": "|".join(genres)}


def criteo(draw, row):
    """The Criteo display ads as CSV with a header, as AutoML tools export them."""
    out = {"label": 0}
    logit = -1.2
    for i in range(1, 14):
        x = int(math.exp(draw.random.gauss(1, 1.5)))
        out[f"I{i}"] = "" if draw.random.random() < 0.1 else x
        logit += 0.25 * draw.effect("I", i) * (math.log1p(x) - 1.3)
    for i in range(1, 27):
        value = draw.some(20 * i)
        out[f"C{i}"] = "" if draw.random.random() < 0.05 else draw.word("C", i, value)
        logit += 0.4 * draw.effect("C", i, value)
    out["label"] = int(draw.happens(logit))
    return out


def avazu(draw, row):
    """Avazu's train.csv."""
    site, app, c14 = draw.some(300), draw.some(200), draw.some(500)
    position, device = draw.some(4), draw.some(5)
    logit = -1.4 + draw.effect("site", site) + 0.8 * draw.effect("app", app) + draw.effect("C14", c14)
    out = {"id": draw.random.getrandbits(63), "click": int(draw.happens(logit)), "hour": 14102100 + row * 72 // 100000, "C1": 1005 + draw.some(3),
           "banner_pos": position, "site_id": draw.word("site", site), "site_domain": draw.word("domain", site % 90),
           "site_category": draw.word("category", site % 20), "app_id": draw.word("app", app), "app_domain": draw.word("ad", app % 40),
           "app_category": draw.word("ac", app % 15), "device_id": draw.word("device", draw.some(4000)),
           "device_ip": draw.word("ip", draw.some(9000)), "device_model": draw.word("model", draw.some(400)), "device_type": device % 3,
           "device_conn_type": device, "C14": 375 + 9 * c14, "C15": 320, "C16": 50, "C17": 112 + c14 // 4, "C18": c14 % 4, "C19": 35 + 4 * (c14 % 60),
           "C20": -1 if c14 % 3 else 100000 + c14, "C21": 13 + c14 % 50}
    return out


def taobao(draw, row):
    """raw_sample.csv of Taobao's display ads joined with ad_feature.csv and user_profile.csv."""
    user, ad = draw.some(2000), draw.some(700)
    gender, age = user % 2 + 1, user % 7
    logit = -1.2 + draw.effect("user", user) + draw.effect("ad", ad) + draw.effect("both", age, ad % 20)
    clk = int(draw.happens(logit))
    return {"user": 1000 + user * 13, "time_stamp": 1494000000 + row * 25, "adgroup_id": 5000 + ad * 17, "pid": draw.random.choice(["430548_1007", "430539_1007"]),
            "nonclk": 1 - clk, "clk": clk, "cate_id": 60 + ad % 90, "campaign_id": 3000 + ad % 300, "customer": 900 + ad % 200,
            "brand": "" if ad % 3 == 0 else 10000 + ad % 150, "price": round(math.exp(2 + draw.effect("price", ad)), 2), "final_gender_code": gender,
            "age_level": age, "pvalue_level": "" if user % 2 else user % 3 + 1, "shopping_level": user % 3 + 1}


def adult(draw, row):
    """adult.data with the names that most copies give its columns: the label is a text."""
    jobs = ["Private", "Self-emp-not-inc", "Local-gov", "State-gov", "?"]
    marital = ["Married-civ-spouse", "Never-married", "Divorced"]
    age, years, hours, job, status = 17 + draw.some(73), 1 + draw.some(16), 1 + draw.some(99), draw.some(5), draw.some(3)
    gain = 0 if draw.random.random() < 0.9 else int(math.exp(draw.random.gauss(8, 1)))
    logit = -2.5 + 0.03 * age + 0.15 * years + 0.3 * math.log1p(gain) - 1.5 * (status == 1) + draw.effect("job", job)
    return {"age": age, "workclass": jobs[job], "fnlwgt": 12000 + draw.random.randrange(1_400_000), "education": f"{years}th", "education-num": years,
            "marital-status": marital[status], "occupation": f"Craft-{draw.some(14)}", "race": f"R{draw.some(5)}", "sex": draw.random.choice(["Male", "Female"]),
            "capital-gain": gain, "capital-loss": draw.some(4000) if draw.random.random() < 0.05 else 0, "hours-per-week": hours,
            "native-country": f"Country-{draw.some(40)}", "income": ">50K" if draw.happens(logit) else "<=50K"}


def amazon(draw, row):
    """Amazon Reviews 2023, a rating-only file with histories, and the review's own columns."""
    user, item = draw.some(3000), draw.some(800)
    asin = lambda i: "B" + draw.word("asin", i).upper() + "X"
    history = [draw.some(800) for _ in range(draw.some(12))]
    taste = sum(draw.effect("near", h % 10, item % 10) for h in history[-5:]) / 3
    liking = draw.effect("user", user) + draw.effect("item", item) + taste + draw.random.gauss(0, 1)
    return {"user_id": "AE" + draw.word("user", user).upper(), "parent_asin": asin(item), "rating": float(min(5, max(1, round(3.6 + liking)))),
            "timestamp": 1_588_000_000_000 + row * 60_000 + draw.some(50_000), "history": " ".join(asin(h) for h in history),
            "title": draw.random.choice(["Good enough for what I paid for it", 'It "works", mostly, for a while', "Broke after only two weeks of use"]) + f" {row}",
            "helpful_vote": draw.some(40), "verified_purchase": draw.random.choice(["true", "true", "false"])}


TABLES = {t.__name__: t for t in (movielens, criteo, avazu, taobao, adult, amazon)}


def main():
    name, rows, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    draw = Draw(int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    with open(out, "w", newline="", encoding="utf-8") as f:
        writer = None
        for row in range(rows):
            values = TABLES[name](draw, row)
            if not writer:
                writer = csv.DictWriter(f, values, lineterminator="\n")
                writer.writeheader()
            writer.writerow(values)


if __name__ == "__main__":
    main()
