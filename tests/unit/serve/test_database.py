"""SQLite files of the server are closed, whoever opened them."""

import sqlite3

import pytest

from headwise.serve.database import Database


def test_a_database_that_nobody_closes_is_closed_when_it_is_dropped() -> None:
    database = Database()
    connection = database._database
    connection.execute("SELECT 1")
    del database
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
