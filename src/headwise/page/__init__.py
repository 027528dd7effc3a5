"""What a model computes, as a page: its views, its addresses, its files, and the export without a server."""
