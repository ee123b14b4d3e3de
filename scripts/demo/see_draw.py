"""Draws what the seeing demo learns from: pictures of one or two things, as the encoder reads them.

Pillow draws each thing once, as a mask; PyTorch puts masks of a whole batch into pictures, turned, scaled and shrunk."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch.nn import functional as F

SIDE = 72  # of a picture as the encoder reads it
CELLS = 6  # of a picture, each way, as the encoder takes it apart
MASK = 128  # side of a mask
FILL = 104  # of the longer side of a thing in its mask

SHAPES = ["circle", "square", "triangle", "star", "heart", "diamond", "cross", "ring", "moon", "arrow"]
DIGITS = list("0123456789")
LETTERS = list("ABCDEFGHIJKLMNPQRSTUVWXYZ")  # no O, which is a 0 or a ring
NAMES = SHAPES + DIGITS + LETTERS

# Ranges of hue in degrees, of saturation and of value.
COLOURS = {
    "red": ((-8, 8), (0.8, 1), (0.7, 1)),
    "orange": ((24, 38), (0.8, 1), (0.9, 1)),
    "yellow": ((50, 62), (0.7, 1), (0.88, 1)),
    "green": ((95, 150), (0.5, 1), (0.45, 1)),
    "cyan": ((172, 190), (0.6, 1), (0.75, 1)),
    "blue": ((208, 245), (0.65, 1), (0.5, 1)),
    "purple": ((268, 302), (0.5, 1), (0.4, 0.85)),
    "pink": ((325, 351), (0.24, 0.6), (0.93, 1)),
    "brown": ((18, 30), (0.6, 0.9), (0.3, 0.58)),
    "black": ((0, 360), (0, 0.5), (0, 0.1)),
    "white": ((0, 360), (0, 0.04), (0.95, 1)),
    "grey": ((0, 360), (0, 0.05), (0.35, 0.7)),
}
HUES = list(COLOURS)

# How far a thing may be turned, either way; others 8 degrees.
TURNS = {"circle": 180, "ring": 180, "star": 180, "triangle": 180, "moon": 180, "arrow": 180, "heart": 20}
FONTS = Path("/usr/share/fonts/truetype")
FACES = [
    "croscore/Arimo-Bold", "dejavu/DejaVuSans-Bold", "lato/Lato-Bold", "open-sans/OpenSans-Bold", "roboto/unhinted/RobotoTTF/Roboto-Bold",
    "croscore/Arimo-Regular", "dejavu/DejaVuSans", "lato/Lato-Regular", "open-sans/OpenSans-Regular",
    "roboto/unhinted/RobotoTTF/Roboto-Regular", "hack/Hack-Bold", "croscore/Tinos-Bold",
]


def polar(n, radius, turn=-90):
    """n points around the origin, at the radii in turn."""
    at = [math.radians(turn + 360 * i / n) for i in range(n)]
    return [(radius[i % len(radius)] * math.cos(a), radius[i % len(radius)] * math.sin(a)) for i, a in enumerate(at)]


def outlines():
    """The shapes, each in some forms: polygons about the origin, of which each after the first is cut out."""
    disc = lambda r, x=0, y=0: [(x + a, y + b) for a, b in polar(180, [r])]
    t = np.linspace(0, 2 * math.pi, 200)
    bar = lambda w: [(-w, -1), (w, -1), (w, -w), (1, -w), (1, w), (w, w), (w, 1), (-w, 1), (-w, w), (-1, w), (-1, -w), (-w, -w)]
    arrow = lambda w, h: [(-1, -w), (1 - h, -w), (1 - h, -0.7), (1, 0), (1 - h, 0.7), (1 - h, w), (-1, w)]
    return {
        "circle": [[disc(1)]],
        "square": [[[(-1, -1), (1, -1), (1, 1), (-1, 1)]]],
        "triangle": [[polar(3, [1])], [[(-0.8, 1), (0.8, 1), (0, -1)]], [[(-1, 0.7), (1, 0.7), (0, -0.7)]]],
        "star": [[polar(10, [1, r])] for r in (0.38, 0.45, 0.52)] + [[polar(12, [1, 0.55])]],
        "heart": [[list(zip(16 * np.sin(t) ** 3, k * (5 * np.cos(2 * t) + 2 * np.cos(3 * t) + np.cos(4 * t) - 13 * np.cos(t))))]
                  for k in (1, 1.15)],
        "diamond": [[[(0, -1), (w, 0), (0, 1), (-w, 0)]] for w in (0.6, 0.75, 0.95)],
        "cross": [[bar(w)] for w in (0.2, 0.28, 0.36)],
        "ring": [[disc(1), disc(r)] for r in (0.5, 0.65, 0.75)],
        "moon": [[disc(1), disc(r, x)] for r, x in ((0.85, 0.5), (0.8, 0.4), (0.95, 0.6))],
        "arrow": [[arrow(w, h)] for w, h in ((0.25, 0.8), (0.18, 0.9), (0.3, 0.9))],
    }


def mask_of(polygons):
    """A mask with polygons in its middle: the first, without the others."""
    big = 4 * MASK
    p = np.array(polygons[0])
    low, high = p.min(0), p.max(0)
    scale = 4 * FILL / (high - low).max()
    im = Image.new("L", (big, big))
    for i, q in enumerate(polygons):
        ImageDraw.Draw(im).polygon([tuple(x) for x in (np.array(q) - (low + high) / 2) * scale + big / 2], fill=0 if i else 255)
    return im.resize((MASK, MASK), Image.BOX)


def glyph(face, text):
    font = ImageFont.truetype(str(FONTS / (face + ".ttf")), 400)
    x0, y0, x1, y1 = font.getbbox(text)
    im = Image.new("L", (x1 - x0, y1 - y0))
    ImageDraw.Draw(im).text((-x0, -y0), text, 255, font)
    scale = FILL / max(im.size)
    im = im.resize((max(1, round(im.width * scale)), max(1, round(im.height * scale))), Image.BOX)
    out = Image.new("L", (MASK, MASK))
    out.paste(im, ((MASK - im.width) // 2, (MASK - im.height) // 2))
    return out


class Masks:
    """The masks of everything: of[name] are the numbers of a thing's forms. Each is there in some sizes, so that one has
    about as many pixels as what is drawn with it: neither jagged nor blurred."""

    SIZES = [MASK // 4, 45, MASK // 2, 91]

    def __init__(self):
        self.of, masks, shapes = {}, [], outlines()
        for name in NAMES:
            ims = [mask_of(p) for p in shapes[name]] if name in shapes else [glyph(f, name) for f in FACES]
            self.of[name] = range(len(masks), len(masks) + len(ims))
            masks += [np.asarray(im, np.float32) / 255 for im in ims]
        whole = torch.from_numpy(np.stack(masks))[:, None]
        self.at = [F.interpolate(whole, size=n, mode="bilinear", align_corners=False, antialias=True) for n in self.SIZES]

    def choose(self, name, rng, ease):
        forms = self.of[name]
        return forms[rng.integers(len(forms) if name in SHAPES else round(len(forms) * (1 - 0.7 * ease)))]

    def size_for(self, pixels):
        """Which of SIZES suits a thing that is so large."""
        return np.abs(np.log(pixels[:, None] / (np.array(self.SIZES) * FILL / MASK))).argmin(1)


@dataclass
class Thing:
    name: str
    colour: str
    x: float  # of its centre, and what follows, in parts of the picture's shorter side
    y: float
    size: float
    rgb: np.ndarray


def rgb_of(name, rng):
    h, s, v = (rng.uniform(*r) for r in COLOURS[name])
    k = (np.array([5, 3, 1]) + h / 60) % 6
    return v - v * s * np.clip(np.minimum(k, 4 - k), 0, 1)


def unlike(a, b):
    """Whether two colours are told apart: by eye, a dark blue is near to black."""
    d = a - b
    return math.sqrt((d * d * (0.6, 1.2, 0.5)).sum()) > 0.4


def scene(rng, ease=0.0):
    """The things of a picture from left to right or from top to bottom, its background's two colours, its sides. With
    ease, up to 1, it is rather one large thing, and its letters are of the first fonts."""
    wide, high = (1, 1) if rng.random() < 0.6 else (1, rng.uniform(0.7, 1)) if rng.random() < 0.5 else (rng.uniform(0.7, 1), 1)
    n = 0 if rng.random() < 0.015 else 1 if rng.random() < 0.55 + 0.45 * ease else 2
    kind = rng.random()
    while True:
        ground = rgb_of(HUES[rng.integers(len(HUES))], rng) if kind < 0.35 else rgb_of("white", rng) if kind < 0.65 else \
            rgb_of("black", rng) if kind < 0.75 else rng.uniform(0, 1, 3)
        far = ground if rng.random() < 0.75 else np.clip(ground + rng.uniform(-0.3, 0.3, 3), 0, 1)
        colours = [HUES[i] for i in rng.integers(len(HUES), size=n)]
        inks = [rgb_of(c, rng) for c in colours]
        if all(unlike(i, g) for i in inks for g in (ground, far)):
            break
    # A thing of each of the three kinds is as likely as letters by themselves are many.
    names = [(SHAPES, DIGITS, LETTERS)[rng.choice(3, p=(0.36, 0.24, 0.4))] for _ in range(n)]
    names = [k[rng.integers(len(k))] for k in names]
    if n < 2:
        size = rng.uniform(0.42 + 0.33 * ease, 0.92) * min(wide, high)
        slack = lambda side: side / 2 + rng.uniform(-1, 1) * (side - size) / 2
        at = [(slack(wide), slack(high), size)]
    else:
        across = wide > high or wide == high and rng.random() < 0.5
        long, short = (wide, high) if across else (high, wide)
        sizes = rng.uniform(0.38, 0.5, 2) * min(long, 1.2 * short)
        room = max(long - sizes.sum(), 0)
        gaps = rng.dirichlet((1, 1, 1)) * room
        along = (gaps[0] + sizes[0] / 2, long - gaps[2] - sizes[1] / 2)
        tilt = 0.55 * (along[1] - along[0])  # more, and it is not plain whether one is beside or above the other
        other = short / 2 + rng.uniform(-1, 1, 2) * np.maximum(short - sizes, 0) / 2
        if abs(other[0] - other[1]) > tilt:
            other = other.mean() + (other - other.mean()) * tilt / abs(other[0] - other[1])
        at = [(a, o, s) if across else (o, a, s) for a, o, s in zip(along, other, sizes)]
    left, top = (1 - wide) / 2, (1 - high) / 2
    things = [Thing(n, c, left + x, top + y, s, ink) for n, c, (x, y, s), ink in zip(names, colours, at, inks)]
    return things, (ground, far), (wide, high), n == 2 and not across


def render(scenes, masks, rng, ease=0.0):
    """Returns pictures as bytes [n, 3, SIDE, SIDE], and how much of each cell each of two things covers."""
    n = len(scenes)
    f32 = lambda x: torch.from_numpy(np.asarray(x, np.float32))
    ramp = f32((np.arange(SIDE) + 0.5) / SIDE)
    turn = f32(rng.uniform(0, 2 * math.pi, n))[:, None, None]
    mix = (0.5 + (ramp[None, None, :] - 0.5) * turn.cos() + (ramp[None, :, None] - 0.5) * turn.sin()).clamp(0, 1)[:, None]
    near, far = (f32([s[1][i] for s in scenes])[:, :, None, None] for i in (0, 1))
    canvas = near + (far - near) * mix
    cover = torch.zeros(n, 2, SIDE, SIDE)
    for i in range(2):
        who = np.array([j for j in range(n) if len(scenes[j][0]) > i])
        if not len(who):
            continue
        things = [scenes[j][0][i] for j in who]
        which = np.array([masks.choose(t.name, rng, ease) for t in things])
        size = np.array([t.size for t in things])
        angle = np.radians([rng.uniform(-1, 1) * TURNS.get(t.name, 8) for t in things])
        # A turned thing is wider: its corners must stay in.
        lean = np.abs(np.cos(angle)) + np.array([0.0 if t.name in ("circle", "ring", "star") else 0.6 for t in things]) * np.abs(np.sin(angle))
        scale = size / np.maximum(lean, 1) * SIDE / FILL
        stretch = np.exp(rng.uniform(-0.07, 0.07, len(who)))
        stretch[[t.name in ("circle", "ring", "square") for t in things]] **= 0.4
        shear = np.where([t.name in SHAPES for t in things], 0, rng.uniform(-0.05, 0.05, len(who)))
        # Out of a picture's coordinates into the mask's, both from -1 to 1.
        cos, sin = np.cos(angle) / scale, np.sin(angle) / scale
        a = np.stack([np.stack([cos, sin], 1) * stretch[:, None], np.stack([-sin, cos], 1) / stretch[:, None]], 1)
        a[:, 0] += shear[:, None] * a[:, 1]
        centre = np.stack([[2 * t.x - 1 for t in things], [2 * t.y - 1 for t in things]], 1)
        theta = np.concatenate([a, -np.einsum("nij,nj->ni", a, centre)[:, :, None]], 2) * SIDE / MASK
        fits = masks.size_for(size * SIDE)
        for k in np.unique(fits):
            some = fits == k
            grid = F.affine_grid(f32(theta[some]), (int(some.sum()), 1, SIDE, SIDE), align_corners=False)
            alpha = F.grid_sample(masks.at[k][which[some]], grid, align_corners=False)
            ink = f32([t.rgb for t, yes in zip(things, some) if yes])[:, :, None, None]
            at = who[some]
            canvas[at] += (ink - canvas[at]) * alpha
            cover[at, i] = alpha[:, 0]
    for j in np.flatnonzero(rng.random(n) < 0.25):
        canvas[j] += f32(rng.uniform(0, 0.06) * rng.standard_normal((3, SIDE, SIDE)))
    for j, s in enumerate(scenes):  # a picture that is no square has black beside it
        x, y = (round((1 - side) / 2 * SIDE) for side in s[2])
        if x:
            canvas[j, :, :, :x] = canvas[j, :, :, SIDE - x:] = 0
        if y:
            canvas[j, :, :y] = canvas[j, :, SIDE - y:] = 0
    return (canvas.clamp(0, 1) * 255).round().to(torch.uint8), F.avg_pool2d(cover, SIDE // CELLS).flatten(2)


if __name__ == "__main__":
    import sys
    rng = np.random.default_rng(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    some = [scene(rng) for _ in range(96)]
    px, _ = render(some, Masks(), rng)
    sheet = px.view(8, 12, 3, SIDE, SIDE).permute(0, 3, 1, 4, 2).reshape(8 * SIDE, 12 * SIDE, 3)
    Image.fromarray(sheet.numpy()).resize((24 * SIDE, 16 * SIDE), Image.NEAREST).save("sheet.png")
