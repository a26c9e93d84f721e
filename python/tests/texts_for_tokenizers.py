"""Texts that are difficult for tokenizers."""

from __future__ import annotations

import functools
import pathlib
import random
import subprocess
import sysconfig
import unicodedata
from collections.abc import Callable

SEED = 20260101


@functools.cache
def sources(count: int = 40) -> list[bytes]:
    """Returns about 1 MB of the source trees of Go and of Python: every n-th file, so that every folder is
    represented; count files of each."""
    goroot = subprocess.run(["go", "env", "GOROOT"], check=True, capture_output=True, text=True).stdout.strip()
    texts = []
    for folder, pattern in ((pathlib.Path(goroot, "src"), "*.go"), (sysconfig.get_path("stdlib"), "*.py")):
        files = sorted(path for path in pathlib.Path(folder).rglob(pattern) if path.stat().st_size < 200_000)
        texts += [path.read_bytes() for path in files[:: max(1, len(files) // count)]]
    return texts


@functools.cache
def characters() -> tuple[list[str], list[str]]:
    """Returns the assigned characters, and the unassigned and private ones."""
    categories = [(c, unicodedata.category(c)) for c in map(chr, range(0x110000))]
    common = [c for c, category in categories if category not in ("Cn", "Co", "Cs")]
    return common, [c for c, category in categories if category in ("Cn", "Co")]


def every_character(text: Callable[[str], str], step: int = 199) -> list[bytes]:
    """Returns a text for every assigned character, and for every step-th of the unassigned and private ones, 64 of
    them joined."""
    common, rare = characters()
    points = common + rare[::step]
    return ["".join(map(text, points[i : i + 64])).encode() for i in range(0, len(points), 64)]


# Article 1 of the Universal Declaration of Human Rights, and plain sentences if it is short.
SENTENCES = """
All human beings are born free and equal in dignity and rights. They are endowed with reason and conscience.
Alle Menschen sind frei und gleich an Würde und Rechten geboren; über „Grundsätze“ — § 1 — läßt sich streiten.
Tous les êtres humains naissent libres et égaux en dignité et en droits ; l’œuvre coûte 1 234,56 €.
Todos los seres humanos nacen libres e iguales en dignidad y derechos. ¿Verdad? ¡Sí!
Tutti gli esseri umani nascono liberi ed eguali in dignità e diritti, cos’è più?
Todos os seres humanos nascem livres e iguais em dignidade e em direitos; não há exceções.
Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw.
Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti a práv. Příliš žluťoučký kůň.
Minden emberi lény szabadon születik és egyenlő méltósága és joga van. Árvíztűrő tükörfúrógép.
Kaikki ihmiset syntyvät vapaina ja tasavertaisina arvoltaan ja oikeuksiltaan.
Alla människor är födda fria och lika i värde och rättigheter. Åäö!
Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. İstanbul'da ılık ığdır.
Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền lợi.
Все люди рождаются свободными и равными в своём достоинстве и правах. Съешь же ещё этих мягких французских булок.
Всі люди народжуються вільними і рівними у своїй гідності та правах; їжак, ґанок.
Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα· ΕΛΛΗΝΙΚΆ ς σ.
Բոլոր մարդիկ ծնվում են ազատ ու հավասար իրենց արժանապատվությամբ ու իրավունքներով։
ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებითა და უფლებებით.
כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. שָׁלוֹם עֲלֵיכֶם
يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق. وَقَدْ وُهِبُوا عَقْلًا؟ ١٢٣٤٥٦
تمام افراد بشر آزاد به دنیا می‌آیند و از لحاظ حیثیت و حقوق با هم برابرند. ۱۲۳
تمام انسان آزاد اور حقوق و عزت کے اعتبار سے برابر پیدا ہوئے ہیں۔
सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। १२३४
সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে। ১২৩
ਸਾਰਾ ਮਨੁੱਖੀ ਪਰਿਵਾਰ ਆਪਣੀ ਮਹਿਮਾ, ਸ਼ਾਨ ਅਤੇ ਹੱਕਾਂ ਦੇ ਪੱਖੋਂ ਜਨਮ ਤੋਂ ਹੀ ਆਜ਼ਾਦ ਹੈ।
மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்; அவர்கள் மதிப்பிலும் சமமானவர்கள். ௧௨௩
ప్రతిపత్తిస్వత్వముల విషయమున మానవులెల్లరును జన్మతః స్వతంత్రులును సమానులును నగుదురు.
ಎಲ್ಲಾ ಮಾನವರೂ ಸ್ವತಂತ್ರರಾಗಿಯೇ ಜನಿಸಿದ್ದಾರೆ. ಹಾಗೂ ಘನತೆ ಮತ್ತು ಹಕ್ಕುಗಳಲ್ಲಿ ಸಮಾನರಾಗಿದ್ದಾರೆ.
മനുഷ്യരെല്ലാവരും തുല്യാവകാശങ്ങളോടും അന്തസ്സോടും സ്വാതന്ത്ര്യത്തോടുംകൂടി ജനിച്ചിട്ടുള്ളവരാണ്‌.
සියලු මනුෂ්‍යයෝ නිදහස්ව උපත ලබා ඇත. ගරුත්වයෙන් හා අයිතිවාසිකම්වලින් සමාන වෙති.
มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ ๑๒๓๔
ມະນຸດທຸກຄົນເກີດມາມີກຽດສັກສີ, ສິດທິ, ເສລີພາບແລະຄວາມສະເໝີພາບເທົ່າທຽມກັນ.
လူတိုင်းသည် တူညီ လွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့် လည်းကောင်း၊ မွေးဖွားလာသူများဖြစ်သည်။ ၁၂၃
មនុស្សទាំងអស់ កើតមកមានសេរីភាព និងសមភាព ក្នុងផ្នែកសេចក្ដីថ្លៃថ្នូរនិងសិទ្ធិ។ ១២៣
འགྲོ་བ་མིའི་རིགས་རྒྱུད་ཡོངས་ལ་སྐྱེས་ཙམ་ཉིད་ནས་ཆེ་མཐོངས་དང༌།
ሰብዓዊ ፍጡራን ሁሉ በነጻነት የተፈጠሩና በክብርና በመብትም እኩል ናቸው። ፩፪፫
人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。2024年12月31日，《红楼梦》！
人人生而自由﹐在尊嚴和權利上一律平等。他們賦有理性和良心﹐並應以兄弟關係的精神互相對待。
すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。コンピュータ・ゲーム「ドラゴン」100円。
모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 2024년 12월, “안녕”이라고…
Хүн бүр төрж мэндлэхдээ эрх чөлөөтэй, адилхан нэр төртэй, ижил эрхтэй байдаг.
ᠬᠦᠮᠦᠨ ᠪᠦᠷ ᠲᠥᠷᠥᠵᠦ ᠮᠡᠨᠳᠡᠯᠡᠬᠦ
ꦱꦧꦼꦤ꧀ꦮꦺꦴꦁ ꦏꦭꦲꦶꦂꦫꦏꦺ ꧑꧒꧓
𐌰𐌽𐌰 𐍆𐌹𐌻𐌿 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛 ①②③ Ⅳ ½ ﬁ ℃ ㍿ ｆｕｌｌ　ｗｉｄｔｈ １２３ ｶﾀｶﾅ
😀😃 👩‍👩‍👧‍👦 👍🏽 🇩🇪🇯🇵 ❤️ ☃︎ ✓ → ∑∫√ ≤≥≠ ⟨x|y⟩ «quotes» ‹q› „so“ ‚s‘ … – — •
"""


def languages() -> list[bytes]:
    """Returns sentences in many scripts: separately, in other normalization forms, in capitals, and all in one text."""
    lines = SENTENCES.strip().splitlines()
    forms = [unicodedata.normalize(form, line) for form in ("NFC", "NFD", "NFKC", "NFKD") for line in lines]
    joined = ["\n".join(lines), "  ".join(lines), "".join(lines)]
    return [t.encode() for t in [*lines, *forms, *(line.upper() for line in lines), *joined]]


@functools.cache
def borders() -> list[str]:
    """Returns characters where the general category changes, and those that patterns treat specially."""
    found = []
    for c in range(1, 0x32000):
        if not 0xD800 <= c - 1 < 0xE000 and not 0xD800 <= c < 0xE000:
            if unicodedata.category(chr(c)) != unicodedata.category(chr(c - 1)):
                found += [chr(c - 1), chr(c)]
    return found


def mixtures(count: int, seed: int = SEED) -> list[bytes]:
    """Returns short random strings: mostly characters that patterns treat specially, and characters around class
    borders."""
    rng = random.Random(seed)
    special = [
        *list(" \t\r\n\x0b\x0c\x00\x1c\x85\xa0\u2028\u3000'’/aAbBsStTlLrReEvVmMdD019.,!?-_<|>"),
        "ſ",
        "K",
        "\n\n",
        "  ",
    ]
    special += [
        "'s",
        "'S",
        "'ſ",
        "'ll",
        "'LL",
        "'lL",
        "'Re",
        "'t",
        "ǅ",
        "ʰ",
        "ª",
        "中",
        "ا",
        "\u0301",
        "👩\u200d🔬",
        "½",
        "²",
    ]
    special += ["<|endoftext|>", "<|endofprompt|>", "<|end"]
    wide = borders()
    texts = []
    for _ in range(count):
        weight = rng.random()
        n = rng.randrange(1, 90)
        texts.append("".join(rng.choice(wide if rng.random() < weight * weight else special) for _ in range(n)))
    return [t.encode() for t in texts]


def broken(count: int, seed: int = SEED) -> list[bytes]:
    """Returns invalid UTF-8: random bytes, cut characters, surrogates, overlong forms, beyond U+10FFFF."""
    rng = random.Random(seed)
    parts = [b"\xed\xa0\x80", b"\xc0\x80", b"\xe0\x80\x80", b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xff", b"\xfe"]
    parts += [
        b"\xe4\xb8",
        b"\xf0\x9f\x98",
        b"\xf0\x9f",
        b"\x80",
        b"\xbf\xbf",
        b" a",
        b"'s",
        b"\n",
        "中é".encode(),
        b"\xf5\x80",
    ]
    texts = [
        bytes([a, b, c])
        for a in (0x41, 0xC2, 0xE1, 0xED, 0xF1, 0xF4)
        for b in (0x7F, 0x80, 0x90, 0xC3)
        for c in (0x20, 0xBF)
    ]
    for _ in range(count):
        texts.append(b"".join(rng.choice(parts) for _ in range(rng.randrange(1, 30))))
        texts.append(rng.randbytes(rng.randrange(1, 60)))
    return texts


def adversarial() -> list[bytes]:
    """Returns long runs, and strings at which tokenizers have failed."""
    long = 4_000
    texts = [
        unit * (long // len(unit)) for unit in ("a", "A", "1", "'", "/", "é", "中", "👩‍🔬", "e\u0301", "ab", "\u0301")
    ]
    texts += [unit * 1_000 for unit in (" ", "\n", "\r\n", " \n", "\t", "\u3000", "\xa0")]
    texts += [f"x{s}y" for s in texts[-7:]] + [
        "",
        " ",
        "\n",
        "  \n ",
        "a\n  ",
        "\n \n \n  x",
        " \r\n\r\n \t",
        "\x00",
        "'",
        "''s's",
    ]
    texts += [
        "it'ſ IT'S we'LL'd'",
        "don't won't Don'T",
        "12345678",
        " 123 456",
        "1½²٣",
        "HTTPServer's XMLHttpRequest'LLx",
    ]
    texts += [
        "!!!\n\n//\n/x",
        "...\r\n/a",
        "a//\n//b",
        "<|endoftext|>",
        "x<|endoftext|><|endoftext|> y",
        "<|endoftext|",
        "🇩🇪🇫🇷",
    ]
    texts += ["a" * k + " " * j + "\n" * i + "b" for k in (0, 1, 62, 63, 64, 65) for j in range(4) for i in range(4)]
    return [t.encode() for t in texts]
