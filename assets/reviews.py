"""A public labelled set of 7,000 film review snippets: 3,200 to train, 800 to validate, 3,000 to test.

The snippets and their ratings are those of Hutto and Gilbert, "VADER: A Parsimonious Rule-based Model
for Sentiment Analysis of Social Media Text" (2014), from the source package of vaderSentiment 0.5 (MIT):

    pip download --no-deps --no-binary :all: vaderSentiment==0.5
    python assets/reviews.py vaderSentiment-0.5.zip reviews.tsv

Each was rated by twenty people from -4 to 4. Those whose mean is within 0.5 of 0 are left out, and so is
every copy of a text; the order is shuffled with a fixed seed.
"""

import io
import random
import sys
import tarfile
import zipfile

PARTS = [("test", 3000), ("validation", 800), ("train", 3200)]

package, out = sys.argv[1:]
with zipfile.ZipFile(package) as files:
    name = next(name for name in files.namelist() if name.endswith("hutto_ICWSM_2014.tar.gz"))
    with tarfile.open(fileobj=io.BytesIO(files.read(name))) as inner:
        member = next(m for m in inner if m.name.endswith("movieReviewSnippets_GroundTruth.txt"))
        lines = inner.extractfile(member).read().decode("utf-8", "replace").split("\n")

texts = {}
for line in lines:
    fields = line.rstrip("\r").split("\t")
    if len(fields) < 3:
        continue
    rating, text = float(fields[1]), " ".join(fields[2].split())
    if abs(rating) >= 0.5 and text:
        texts.setdefault(text, "positive" if rating > 0 else "negative")
items = list(texts.items())
random.Random(0).shuffle(items)
with open(out, "w", encoding="utf-8") as file:
    file.write("split\tlabel\ttext\n")
    for part, count in PARTS:
        for text, label in items[:count]:
            file.write(f"{part}\t{label}\t{text}\n")
        del items[:count]
