"""SHA-256 of the files of the catalog's corpora and models, by name."""

from __future__ import annotations

MULTI30K: dict[str, str] = {
    "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    "train.fr": "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d",
    "val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "val.fr": "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc",
    "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    "test_2016_flickr.fr": "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
    "train.lc.norm.tok.en": "08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119",
    "train.lc.norm.tok.de": "cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505",
    "train.lc.norm.tok.fr": "8fa41bb718412bcb7c5dfa58603842810a01543eae86a51279f9886b901266e1",
    "val.lc.norm.tok.en": "46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec",
    "val.lc.norm.tok.de": "97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00",
    "val.lc.norm.tok.fr": "b303e301aa21fe7822a846b2b3fb2d5a1121ec807cd5b1d006fb7b2b5507168a",
    "test_2016_flickr.lc.norm.tok.en": "5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2",
    "test_2016_flickr.lc.norm.tok.de": "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4",
    "test_2016_flickr.lc.norm.tok.fr": "1463bd5960f9bfe098ec3cd752d3df0c49c84dc646fb518964a29232658cd836",
}

TANAKA: dict[str, str] = {
    "train.en": "148b05dcd28638fe20ee84f2b1127001c80982be352007dda241fb759adadc76",
    "train.ja": "fc81a1434349ec98a449d7ae9cd2530057f689637684ecfed3501ea6a8a07ecc",
    "dev.en": "04a2673449770657fd5e3b963cb856be3130923212b6db8ac7eaeef18f06c041",
    "dev.ja": "cd534f56b8639dc130f86a365e5ec0aa70042000bdd740a622fbbf8b6be4acca",
    "test.en": "45edb380749ec2b49cca7618fc5a7595fc9f791180672ba466b90c873a4aa8bf",
    "test.ja": "d37dc460a81b064e4106c8913eb11fa300da05cf3f58a7a5bbfec7e20947ddef",
}

MINIATURE: dict[str, str] = {
    "dev.align": "e80174b0fff2b3b5c9aa8623cfd8781fa50eac49cdeab85a7a54f028058f9e38",
    "dev.de": "93168cda8aeb8221cd58ee970ab59255ad60d8522761d849c9a1faaa39afa3d7",
    "dev.de.conllu": "38c3c0b55f183a9252c55d30337b0e771fde83403c9da76a03d93efdbdca47c1",
    "dev.en": "403e1573fd41363568ba769330fb02ac8818049b4f743bacf841beacfde8a2dd",
    "dev.en.conllu": "c7987a3896d96fa829723ba2a32f3d479b4358f00f03941dfdb63f60d60099a4",
    "examples.en": "a49786aa8fab18a8d69bfd307c4870b8db0405906f2ca7e74bbc6e1bdec708e7",
    "test.align": "cab70912a14d50bc79f8f9a60db92fdf6347f437c44f1bb5a837ab79701f33a6",
    "test.de": "9d02e10846c84c280c528f6237dd371d391c8d54c9b44233b383d6d366672c0d",
    "test.de.conllu": "755b3694977f6298a2d93d70aa9601c5aed5446b2fa52e33bde284b1c308d6da",
    "test.en": "6c737c28e2ec3b6eceaad193fc7f964f15e9861319e4b9f0aa6d72ecadbb96aa",
    "test.en.conllu": "9fa7c35d22923dc4a4c03b232c6ef628a5a8e17b15cb9a78d26a81203c37d595",
    "train.de": "11c155042befe5944a1ba4510921c71188f596b22cb251c4993e939ac5d01ea4",
    "train.en": "6fc3825bbfe9fc9746d88bf2902c916676d9aaa2e21aa5d7c51d60633771433e",
}

TINY: dict[str, str] = {
    "dev.de": "958906a4727c773cfe66522d9caf409f5d44e2cc2816efbf5bece727d4cc45e8",
    "dev.en": "143a13d4b986dbd5fcec7b0f0c95dfceaddc4bbd88da6a581d3355fec5f9f159",
    "test.de": "8ce02510b6ba63ac28f11235af1b10f06fa818c902e63ecf8df8c4b00eb310ef",
    "test.de.conllu": "afdc082e8acea9abfe2dc62307b43602de4f382b146aaa146038fbc22d37832f",
    "test.en": "30895ead34b548643788835a2c703ccfb6a8aba6dc32a48c0387d0771320d7f7",
    "test.en.conllu": "e83f9007c11d920504fb852e84cf906ff38a073701837ac35c346ad0adaea19d",
    "train.de": "dd03afbbde2f36c73b53d425c7466b09102c3035f8ad4b211510b4494f7b5572",
    "train.en": "f14b543e36390e567f37896122a885699c3621a398bf332d31f9b83598f82f09",
}

OPEN_TEXT: dict[str, str] = {
    "tatoeba.tsv": "479b09eed22e6acd4bf7ae729702376c0ac55f296cb02d0c94a6825d00f84f02",
    "covost2.tsv": "a1aee4164cd989e80bbd9adaac73f84166fac3448d48110f0fe2339d28933090",
    "debian-website.tsv": "9e5057bf38cb2040d30fce24cf8e8113d6c5f83f018b010e48a2a1dc0c76613b",
    "php-manual.tsv": "9bc31239fd7917cb874cb299f68c4e5873728ae4d7b29a866beb64eea19edf8f",
    "rust-book.tsv": "9afd1059df7f9ef797b70bd13d7a8e8c6ee17b1df8b5acdbebfbd00b67489f2e",
    "thunderbird.tsv": "20ff8d0e262ae0ee32769bc3786cedede1533224b2b5cbb2db37f05a5664bfbe",
    "gnome-help.tsv": "f9fc5f2e90d965b9fea2fafb73fe6271998b3e2f7bca72c60c7e89a72d2b69e5",
    "tldr-pages.tsv": "ff76720773f271c40dc9cbee51982e059b520fd88bb8ea62a1f8aaefe958a534",
    "privacy-guides.tsv": "3980fba1a92d7c3cd41a24a3bcf4e97363f0a7fdf642d6a15ec7aa4319678c0c",
    "mozilla-websites.tsv": "6839a9af65b9a04f034bc293c7c3b8109d60d8ec703593ff5162dc4cdb1dc25b",
    "cwa-website.tsv": "b2cc4b1210d669cd65eddb746db6b3a1fd5a93f1605aa86f6c9b16aeb7f321b1",
    "cwa-blog.tsv": "2b75018e9d2b2c65aaebffd57686131f0c915cad2c3f52e504aa08ed8eb0a6fc",
    "django-girls.tsv": "b0475c6958779ea3c4f519a185fbed1459fed7a20be7d50e477f26f70ddb027b",
    "open-source-guides.tsv": "41dca1ae8f0d0f67e293d0ed2b1ae5c547e5ea24d74144b3298f83578ef04b7c",
    "test/tatoeba-dev.en": "34b615fcc0e519fa0b573c4917eabf14e8a3d77c19d9016c06e23da41d14918a",
    "test/tatoeba-dev.de": "7ba7629167aac5784c33b7ab7e526bc4f7892506eae2874f18bd4e9ff25bfe99",
    "test/tatoeba-test.en": "cb66dc90b17a34d27a08246f60a1856c15dde7145fe7d63781dda67415764322",
    "test/tatoeba-test.de": "c38d73618da52bf8e2450c901587412d8eb1776dab26a9b4184c520476020bb8",
    "test/ntrex128.en": "389e8f5796c66db4f646dfad33e1ec622d74767af5ef112b42a1f2cd814df3cc",
    "test/ntrex128.de": "259d7406a07b63e6b5b9c4a22fb76b85e2578a3fa0a4e541a50f4f7348e5c1b2",
}

WIKTIONARY_DE: dict[str, str] = {
    "de_adj_entries.zip": "30cd4a08b9eea117b9c7692c452462bee0655a9ae8ae8b52a2c7483fe7c10ac4",
    "de_adj_translations.zip": "09cd27169494505abb1cc19952e1a4c9a374137122b8b327d1e717ac0702b5c1",
    "de_noun_entries.zip": "a2e5e6a344299a7d0343277aad627915525b2b62d8694ffa290b830cb9faab48",
    "de_noun_translations.zip": "c5218d7d7f35340235c6a72f6cf9b9f6b11cd50988502b7ba28b780bd798e961",
}

OPEN_EN_DE: dict[str, str] = {
    "README.md": "006d83cf97f40785d694640ec251e3228964ea6a87f41ceca80b43f16cb28bd7",
    "config.yaml": "0cf639f57252b06b8af8030a14c0094e12d818c83e200fa2e4d308a1c31b69ea",
    "corpus/examples.en": "8a8c5d1b6b26b8f610cb76dfc5a520f95357d52629d32cbd5a8a9744d9cf430d",
    "corpus/tatoeba-dev.de": "474cf3fbdc5378e23f619c12626cbef3edc2daf6e4984ed0ca78cf2dc12bc35e",
    "corpus/tatoeba-dev.en": "61ba7576f76eda325a562769c938f4276c0e405c66dde5a3f1a223c4b8378fb6",
    "dictionary.tsv.xz": "a616800b4419ef0c8274f0428ea70ea31c7d78e7ec72dc90d0be359e1e6c54d2",
    "measured.json": "e8683ae37881f894662120bfd842aaf8bc9cf8f20e920a115460da141113636e",
    "metrics.jsonl": "b000b2208fb2be32fa3a7bec6726a1d28d05a8d72deb9c65fc5cf321ae657c0b",
    "model.safetensors": "d0b442ec461f3a75d7c46da2ca5eb5254a9670079e0df808acaf8f3bb0c72ba3",
    "shortlist.safetensors": "4f0c300664840b9991af6dd730abbd2c50dbc69efddf6ea4ba2c85448193b954",
    "spm.model": "40e27e919dc4bd2f5fe68872e0ed0789bbddbcb96e0800056dcb6375ee726942",
    "words.txt": "f30681ef65a7c89a431f18b1c2f2a058d68300755aa01889b85e2d021b8ccd9c",
}

OPEN_DE_EN: dict[str, str] = {
    "README.md": "13b4cc0f8dca69c69941f04d28ad7816d5fb05baf91f9e05423df59eecb37477",
    "config.yaml": "602ef9309a5be3ab2864c568fb1933d122cc52b94cc323886b27b6ca76e5e4bf",
    "corpus/examples.de": "ae422e14aa3ee7fa7ff75ed388e619d380dbb23ddb46fd78dee10567596dba03",
    "corpus/tatoeba-dev.de": "474cf3fbdc5378e23f619c12626cbef3edc2daf6e4984ed0ca78cf2dc12bc35e",
    "corpus/tatoeba-dev.en": "61ba7576f76eda325a562769c938f4276c0e405c66dde5a3f1a223c4b8378fb6",
    "dictionary.tsv.xz": "eff3ff8f07a84f5134f8aac1e248477b4ca6ce59f293433ff16747b06e80958c",
    "measured.json": "71b0088a3611cecab46c31bab2fbc12a2648fa2f04154514fae732c659bb27c9",
    "metrics.jsonl": "c1ae4b3e9a50f58ea8dfe12649a46a91c9dbfbdabfb331be8079e3fc5c659819",
    "model.safetensors": "162c1f354743e7ba6424136042d6d7b7153fc1dac80940a36f65989988c4342d",
    "shortlist.safetensors": "8caf8fb8b6c84529353739cf1e0d8b973cc84c92738065aabbd37dc9d9fabe9c",
    "spm.model": "f36e8cf09caa6544c4bbe4f729f25d96354816bd29a756780289f876987003c2",
    "words.txt": "1b616df4503f4d813a5665eeaa078657462366f02d3ca9bc9a53136a7cd85d42",
}
