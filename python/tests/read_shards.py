"""Prints samples of an MDS folder as MosaicML's library reads them, as JSON: python read_shards.py FOLDER COLUMN..."""

import json
import sys

import numpy as np
from streaming import LocalDataset

columns = sys.argv[2:]
plain = lambda v: v.tolist() if isinstance(v, np.ndarray | np.generic) else v  # noqa: E731
print(json.dumps([[plain(sample[c]) for c in columns] for sample in LocalDataset(sys.argv[1])]))
