"""A step of training in torch, for the model and the batch of train.rs: the Python column of the
README. Needs torch and transformers; the one argument is the number of threads."""

import statistics
import sys
import time

import torch
from transformers import BertConfig, BertLMHeadModel

torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
torch.manual_seed(0)
config = BertConfig(
    vocab_size=3000,
    hidden_size=128,
    num_hidden_layers=4,
    num_attention_heads=4,
    intermediate_size=512,
    max_position_embeddings=128,
    type_vocab_size=1,
    is_decoder=True,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
model = BertLMHeadModel(config).train()  # attention by sdpa, which keeps no probabilities
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
ids = torch.randint(5, 3000, (8, 128))


def step():
    optimizer.zero_grad(set_to_none=True)
    model(ids, labels=ids).loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def seconds():
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


for _ in range(3):
    step()
print(f"{1e3 * statistics.median(seconds() for _ in range(40)):.0f} ms a step")
