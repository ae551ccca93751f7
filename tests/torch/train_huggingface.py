"""Training scripts as users of Hugging Face write them: they name no back-end, and on processors get gloo.

usage: torchrun --nproc-per-node N train_huggingface.py accelerate|trainer...

Rank 0 prints the losses, exactly. Models are made here, with random weights: nothing is downloaded.
"""

import os
import sys
import tempfile

os.environ.update({"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_VERBOSITY": "error"})

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

LENGTH = 24
VOCABULARY = 64


class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        words = torch.randint(VOCABULARY, (LENGTH,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": words, "labels": words}


def accelerate():
    from accelerate import Accelerator
    from accelerate.utils import set_seed
    from transformers import GPT2Config, GPT2LMHeadModel
    set_seed(7)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_positions=LENGTH, n_embd=32, n_layer=2, n_head=2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loader = torch.utils.data.DataLoader(Texts(), batch_size=4, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for batch in loader:
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        yield accelerator.gather_for_metrics(loss.detach()).mean().item()


def trainer():
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed
    set_seed(7)
    config = LlamaConfig(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=LENGTH)
    with tempfile.TemporaryDirectory(prefix="tandem-trainer-") as folder:
        arguments = TrainingArguments(folder, use_cpu=True, per_device_train_batch_size=4, per_device_eval_batch_size=4,
                                      num_train_epochs=1, learning_rate=1e-2, logging_steps=1, logging_nan_inf_filter=False,
                                      eval_strategy="epoch", save_strategy="no", report_to="none", disable_tqdm=True,
                                      dataloader_num_workers=2, seed=7)
        training = Trainer(LlamaForCausalLM(config), arguments, train_dataset=Texts(), eval_dataset=Texts())
        training.train()
        for entry in training.state.log_history:
            yield from (entry[name] for name in ("loss", "grad_norm", "eval_loss") if name in entry)


def main():
    torch.set_num_threads(1)
    for name in sys.argv[1:]:
        losses = [float(loss) for loss in {"accelerate": accelerate, "trainer": trainer}[name]()]
        assert dist.get_backend() == "gloo", dist.get_backend()
        dist.barrier()
        if dist.get_rank() == 0:
            print(f"{name}: " + " ".join(loss.hex() for loss in losses), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
