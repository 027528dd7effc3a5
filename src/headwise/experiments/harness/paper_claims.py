"""The ten claims of the paper that its readers remember, in plain words, each with the findings that decide it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Evidence:
    """A claim of an experiment, by its text; `about` tells it apart where one claim of the paper has several."""

    experiment: str
    claim: str
    about: str = ""


@dataclass(frozen=True)
class PaperClaim:
    """A claim of the paper, its section, the chapter that quotes what was found on it, and what decides it.

    `instead` says why nothing decides it.
    """

    section: str
    chapter: str  # name of its file in `headwise.learn.pages`
    text: str
    evidence: tuple[Evidence, ...] = ()
    instead: str = ""


PAPER_CLAIMS = (
    PaperClaim(
        "6.1",
        "13-results",
        "The Transformer translates better than the recurrent and convolutional systems that it replaced",
        (
            Evidence(
                "table2",
                "Tuned alike and within one budget, the Transformer is better than the systems of its size that it "
                "replaced",
                "quality",
            ),
            Evidence(
                "table2",
                "The Transformer gains on the system that is best besides it with the length of the sentence",
                "longer sentences",
            ),
            Evidence(
                "text-size",
                "With more text, the Transformer gains on the recurrent system",
                "a reason, too little text",
            ),
        ),
    ),
    PaperClaim(
        "6.1",
        "13-results",
        "It takes less training to the same quality",
        (
            Evidence(
                "table2",
                "The Transformer reaches a quality that all reach with fewer operations of training",
            ),
        ),
    ),
    PaperClaim(
        "4",
        "01-why-not-recurrence",
        "Self-attention connects any two words in a constant number of steps, recurrence in as many as lie between",
        (
            Evidence(
                "table1",
                "Self-attention connects all positions in a constant number of operations, a recurrent layer in O(n)",
                "steps",
            ),
            Evidence(
                "recall",
                "Self-attention finds a word again from any distance (section 4)",
                "what attention finds again",
            ),
            Evidence(
                "recall",
                "Recurrent layers of the same size lose what stands far away (section 4)",
                "what recurrence loses",
            ),
        ),
    ),
    PaperClaim(
        "4",
        "01-why-not-recurrence",
        "It is faster than a recurrent layer where a sentence has fewer words than the model has dimensions",
        (Evidence("complexity", "Self-attention is faster than a recurrent layer where n is smaller than d"),),
    ),
    PaperClaim(
        "3.2.1",
        "04-scaling",
        "Attention needs the division by √d_k, or its gradients vanish",
        (
            Evidence(
                "sqrt-dk",
                "Dot products grow with d_k and push the softmax where its gradients vanish; dividing by √d_k "
                "prevents it",
                "gradients",
            ),
            Evidence(
                "table3",
                "A model without the division by √d_k is worse (section 3.2.1)",
                "a model without",
            ),
        ),
    ),
    PaperClaim(
        "4 and 6.2",
        "05-heads",
        "Several heads are better than one, too many are worse again, and they learn different tasks",
        (
            Evidence("table3", "(A) A single head is worse than several", "one head"),
            Evidence("table3", "(A) Too many heads are worse, too", "32 heads"),
            Evidence("heads", "Heads learn different tasks (section 4 and the paper's appendix)", "tasks"),
        ),
    ),
    PaperClaim(
        "3.5 and 6.2",
        "06-positions",
        "Sinusoids are as good as learned positions, and may serve longer sentences than those of training",
        (
            Evidence("table3", "(E) Learned positions are nearly identical to sinusoids", "as good"),
            Evidence(
                "extrapolation",
                "Sinusoids extrapolate to longer sequences than those of training (section 3.5: they may)",
                "longer",
            ),
        ),
    ),
    PaperClaim(
        "6.2",
        "13-results",
        "Bigger models are better, and dropout keeps them from overfitting",
        (
            Evidence("table3", "The big model is better than base", "big"),
            Evidence("table3", "(C) Bigger models are better (d_model = 1024)", "wider"),
            Evidence("table3", "(D) A model without dropout is worse", "no dropout"),
        ),
    ),
    PaperClaim(
        "5.4",
        "12-training",
        "Label smoothing makes perplexity worse, and BLEU better",
        (
            Evidence("label-smoothing", "Label smoothing hurts perplexity", "perplexity"),
            Evidence("label-smoothing", "Label smoothing improves BLEU", "BLEU"),
        ),
    ),
    PaperClaim(
        "6.3",
        "13-results",
        "The Transformer is good at another task as well, constituency parsing",
        instead="The treebank isn't free, and no experiment here parses; `headwise reproduce table4 --show` prints the "
        "paper's own table.",
    ),
)
