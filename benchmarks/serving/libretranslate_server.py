"""LibreTranslate itself, with an Argos package; run by the Python of an environment that has libretranslate.

python libretranslate_server.py PACKAGE.argosmodel PORT WORKERS. Its sentence splitter would download a model. Here
every text is one sentence, so the splitter is left out, which makes LibreTranslate faster.
"""

import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path

package, port, workers = sys.argv[1:]
folder = tempfile.mkdtemp()
os.environ.update(XDG_DATA_HOME=folder, XDG_CONFIG_HOME=folder, XDG_CACHE_HOME=folder, ARGOS_INTER_THREADS=workers)
import_module("argostranslate.package").install_from_path(Path(package).resolve())
splitter = import_module("argostranslate.sbd").MiniSBDSentencizer
splitter.__init__ = lambda self, package: None
splitter.split_sentences = lambda self, text: [text]
vars(import_module("libretranslate.init"))["boot"] = lambda *arguments: None  # it would use the network
os.chdir(folder)
sys.argv = ["libretranslate", "--port", port, "--threads", "64", "--disable-web-ui"]
import_module("libretranslate.main").main()
