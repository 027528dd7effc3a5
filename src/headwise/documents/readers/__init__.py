"""The readers of the formats that `headwise.documents.formats` lists: a module for each family of them."""
