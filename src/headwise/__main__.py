"""`python -m headwise` is the command `headwise`; torchrun starts it this way."""

from headwise.cli.main import main

if __name__ == "__main__":
    main()
