"""Two threads: one does rounds of {rand, rand, add}, the other rounds of {rand, rand, mul}."""
import argparse
import threading


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=100)
    rounds = options.parse_args().rounds
    import torch

    def work(function):
        with torch.no_grad():
            for _ in range(rounds):
                function(torch.rand(8), torch.rand(8))

    workers = [threading.Thread(target=work, args=(function,)) for function in (torch.add, torch.mul)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print("done")


if __name__ == "__main__":
    main()
