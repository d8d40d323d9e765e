"""Make the bundled real input: activations and weight of one matrix of MiniLM, on a real text.

``python -m t3hw.workloads.make_minilm_bundle MODEL`` reads ``model.safetensors`` and ``vocab.txt``
of all-MiniLM-L6-v2 from the folder MODEL, and writes ``minilm_fc2.npz``. See ``minilm_fc2.md``.
"""

import argparse
import math
import re
import unicodedata
from pathlib import Path

import numpy as np

from t3hw.workloads.safetensors import read_tensor

LAYER = 5
HEADS = 12
TEXT = (
    "In tensor parallel training every accelerator multiplies its own slice of the matrices and is "
    "left with a partial sum of the whole output. The sums must then be added across all of the "
    "devices before the next layer can begin, and while the ring is busy the arithmetic units "
    "wait. Hiding that communication behind the multiplication itself is what this machine was "
    "built for.")


def tokenize(text, vocabulary):
    """Token ids of BERT's uncased WordPiece: always the longest piece that the vocabulary has."""
    text = unicodedata.normalize("NFD", text.lower())
    text = "".join(letter for letter in text if unicodedata.category(letter) != "Mn")
    tokens = ["[CLS]"]
    for word in re.findall(r"\w+|[^\w\s]", text):
        start, pieces = 0, []
        while start < len(word):
            ends = (end for end in range(len(word), start, -1)
                    if ("##" if start else "") + word[start:end] in vocabulary)
            end = next(ends, None)
            if end is None:
                pieces = ["[UNK]"]
                break
            pieces.append(("##" if start else "") + word[start:end])
            start = end
        tokens += pieces
    return [vocabulary[token] for token in (*tokens, "[SEP]")]


def normalize(x, weight, bias):
    """Layer normalisation."""
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12) * weight + bias


def softmax(x):
    """Along the last axis."""
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def gelu(x):
    """Exact, by the error function."""
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def encode(get, ids):
    """Run the encoder.

    Parameters
    ----------
    get : callable
        ``get(name)`` is a tensor of the model, in float64.
    ids : list of int
        Tokens.

    Returns
    -------
    list of array
        Input of each layer's last matrix, tokens x 1536.
    array
        Output of the last layer, tokens x 384.
    """
    def linear(x, name):
        return x @ get(f"{name}.weight").T + get(f"{name}.bias")

    def norm(x, name):
        return normalize(x, get(f"{name}.weight"), get(f"{name}.bias"))

    x = (get("embeddings.word_embeddings.weight")[ids]
         + get("embeddings.position_embeddings.weight")[:len(ids)]
         + get("embeddings.token_type_embeddings.weight")[0])
    x = norm(x, "embeddings.LayerNorm")
    inner = []
    for layer in range(LAYER + 1):
        name = f"encoder.layer.{layer}"
        query, key, value = (
            linear(x, f"{name}.attention.self.{part}").reshape(len(ids), HEADS, -1).swapaxes(0, 1)
            for part in ("query", "key", "value"))
        weights = softmax(query @ key.swapaxes(1, 2) / math.sqrt(query.shape[-1]))
        mixed = (weights @ value).swapaxes(0, 1).reshape(len(ids), -1)
        x = norm(x + linear(mixed, f"{name}.attention.output.dense"),
                 f"{name}.attention.output.LayerNorm")
        inner.append(gelu(linear(x, f"{name}.intermediate.dense")))
        x = norm(x + linear(inner[-1], f"{name}.output.dense"), f"{name}.output.LayerNorm")
    return inner, x


def main(argv=None):
    """Make the bundle."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="folder with model.safetensors and vocab.txt")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("minilm_fc2.npz"))
    arguments = parser.parse_args(argv)

    words = (arguments.model / "vocab.txt").read_text(encoding="utf-8").splitlines()
    ids = tokenize(TEXT, {word: index for index, word in enumerate(words)})

    def get(name):
        return read_tensor(arguments.model / "model.safetensors", name).astype(np.float64)

    inner, _ = encode(get, ids)
    a = inner[LAYER].astype(np.float16)
    b = np.ascontiguousarray(get(f"encoder.layer.{LAYER}.output.dense.weight").T).astype(np.float16)
    np.savez_compressed(arguments.out, a=a, b=b, tokens=np.array(ids, np.int32))
    print(f"{arguments.out}: a {a.shape}, b {b.shape}, {arguments.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
