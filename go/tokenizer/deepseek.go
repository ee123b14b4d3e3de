package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The first DeepSeek tokenizers list their classes of characters one by one:
// letters of scripts that have case, most of them; ASCII signs, letters and
// their full-width forms; and the scripts of East Asia, and all between.

// casedLetters matches
//
//	\s?[A-Za-zµÀ-Ö…]+
func casedLetters(s string, i int) int {
	return spaced(s, i, func(r rune) bool { return unicode.Is(cased, r) })
}

// asciiLike matches
//
//	\s?[!-/:-~！-／：-～‘-‟　-。]+
func asciiLike(s string, i int) int {
	return spaced(s, i, func(r rune) bool {
		return '!' <= r && r <= '/' || ':' <= r && r <= '~' ||
			0xff01 <= r && r <= 0xff0f || 0xff1a <= r && r <= 0xff5e ||
			0x2018 <= r && r <= 0x201f || 0x3000 <= r && r <= 0x3002
	})
}

// eastAsian matches
//
//	[一-龥ࠀ-一가-퟿]+
func eastAsian(s string, i int) int {
	return run(s, i, func(r rune) bool { return 0x800 <= r && r <= 0x9fa5 || 0xac00 <= r && r <= 0xd7ff })
}

// upToThreeNumbers matches
//
//	\p{N}{1,3}
func upToThreeNumbers(s string, i int) int { return runUpTo(3, s, i, unicode.IsNumber) }

// eastAsianRuns matches
//
//	[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+
func eastAsianRuns(s string, i int) int {
	for _, class := range [...]func(rune) bool{
		func(r rune) bool { return 0xac00 <= r && r <= 0xd7a3 || 0x3131 <= r && r <= 0x318e },
		func(r rune) bool {
			return strings.ContainsRune("！…“”‘’—：；，", r) || 0x3001 <= r && r <= 0x303f || 0xfe30 <= r && r <= 0xfe4f
		},
		func(r rune) bool { return 0x3105 <= r && r <= 0x312f },
	} {
		if end := run(s, i, class); end > i {
			return end
		}
	}
	return chineseJapanese(s, i)
}

// chineseJapanese matches
//
//	[一-龥぀-ゟ゠-ヿ]+
func chineseJapanese(s string, i int) int {
	return run(s, i, func(r rune) bool { return 0x4e00 <= r && r <= 0x9fa5 || 0x3040 <= r && r <= 0x30ff })
}

// asianRuns matches
//
//	[一-\x{9fff}㐀-\x{4dbf}豈-\x{faff}ぁ-ゟ゠-ヿ･-ﾟ⼀-\x{2fdf}เ-\x{0e7f}ກ-\x{0eff}ក-\x{17ff}က-႟ꩠ-ꩿꧠ-\x{a9ff}가-\x{d7af}ᄀ-ᇿ]+
func asianRuns(s string, i int) int {
	return run(s, i, func(r rune) bool { return unicode.Is(asian, r) })
}

// deepseek3Words matches
//
//	[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
//	 ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func deepseek3Words(s string, i int) int {
	if end := signedWord(s, i); end > i {
		return end
	}
	if end := afterSpace(s, i, punctOrSymbol); end > i {
		return run(s, end, newline)
	}
	return whiteLines(s, i)
}

// sparkWords is deepseek3Words with each line break alone:
//
//	[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
//	 ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+
func sparkWords(s string, i int) int {
	if end := signedWord(s, i); end > i {
		return end
	}
	if end := afterSpace(s, i, punctOrSymbol); end > i {
		return end
	}
	if end := lineBreak(s, i); end > i {
		return end
	}
	return white(s, i)
}

// signedWord matches
//
//	[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
func signedWord(s string, i int) int {
	letter := func(r rune) bool { return 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' }
	r, size := utf8.DecodeRuneInString(s[i:])
	if r < 0x80 && punctOrSymbol(r) {
		if end := run(s, i+size, letter); end > i+size {
			return end
		}
	}
	if !newline(r) && !unicode.IsLetter(r) && !punctOrSymbol(r) {
		if end := run(s, i+size, letterOrMark); end > i+size {
			return end
		}
	}
	return run(s, i, letterOrMark)
}

// punctOrSymbol is [\p{P}\p{S}].
func punctOrSymbol(r rune) bool { return unicode.IsPunct(r) || unicode.IsSymbol(r) }

// asian is the blocks of Chinese, Japanese and Korean, and of the scripts without spaces of South-East Asia.
var asian = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x0e40, 0x0e7f, 1}, {0x0e80, 0x0eff, 1}, {0x1000, 0x109f, 1}, {0x1100, 0x11ff, 1}, {0x1780, 0x17ff, 1},
		{0x2f00, 0x2fdf, 1}, {0x3040, 0x30ff, 1}, {0x3400, 0x4dbf, 1}, {0x4e00, 0x9fff, 1}, {0xa9e0, 0xa9ff, 1},
		{0xaa60, 0xaa7f, 1}, {0xac00, 0xd7af, 1}, {0xf900, 0xfaff, 1}, {0xff65, 0xff9f, 1},
	},
}

var cased = &unicode.RangeTable{
	LatinOffset: 5,
	R16: []unicode.Range16{
		{0x0041, 0x005a, 1}, {0x0061, 0x007a, 1}, {0x00b5, 0x00b5, 1}, {0x00c0, 0x00d6, 1},
		{0x00d8, 0x00f6, 1}, {0x00f8, 0x01ba, 1}, {0x01bc, 0x01bf, 1}, {0x01c4, 0x0293, 1},
		{0x0295, 0x02af, 1}, {0x0370, 0x0373, 1}, {0x0376, 0x0377, 1}, {0x037b, 0x037d, 1},
		{0x037f, 0x037f, 1}, {0x0386, 0x0386, 1}, {0x0388, 0x038a, 1}, {0x038c, 0x038c, 1},
		{0x038e, 0x03a1, 1}, {0x03a3, 0x03f5, 1}, {0x03f7, 0x0481, 1}, {0x048a, 0x052f, 1},
		{0x0531, 0x0556, 1}, {0x10a0, 0x10c5, 1}, {0x13a0, 0x13f5, 1}, {0x13f8, 0x13fd, 1},
		{0x1c90, 0x1cba, 1}, {0x1cbd, 0x1cbf, 1}, {0x1d00, 0x1d2b, 1}, {0x1d6b, 0x1d77, 1},
		{0x1d79, 0x1d9a, 1}, {0x1e00, 0x1f15, 1}, {0x1f18, 0x1f1d, 1}, {0x1f20, 0x1f45, 1},
		{0x1f48, 0x1f4d, 1}, {0x1f50, 0x1f57, 1}, {0x1f59, 0x1f59, 1}, {0x1f5b, 0x1f5b, 1},
		{0x1f5d, 0x1f5d, 1}, {0x1f5f, 0x1f7d, 1}, {0x1f80, 0x1fb4, 1}, {0x1fb6, 0x1fbc, 1},
		{0x1fbe, 0x1fbe, 1}, {0x1fc2, 0x1fc4, 1}, {0x1fc6, 0x1fcc, 1}, {0x1fd0, 0x1fd3, 1},
		{0x1fd6, 0x1fdb, 1}, {0x1fe0, 0x1fec, 1}, {0x1ff2, 0x1ff4, 1}, {0x1ff6, 0x1ffc, 1},
		{0x2102, 0x2102, 1}, {0x2107, 0x2107, 1}, {0x210a, 0x2113, 1}, {0x2115, 0x2115, 1},
		{0x2119, 0x211d, 1}, {0x2124, 0x2124, 1}, {0x2126, 0x2126, 1}, {0x2128, 0x2128, 1},
		{0x212a, 0x212d, 1}, {0x212f, 0x2134, 1}, {0x2139, 0x2139, 1}, {0x213c, 0x213f, 1},
		{0x2145, 0x2149, 1}, {0x214e, 0x214e, 1}, {0x2183, 0x2184, 1}, {0x2c00, 0x2c7b, 1},
		{0x2c7e, 0x2ce4, 1}, {0x2ceb, 0x2cee, 1}, {0x2cf2, 0x2cf3, 1}, {0xa640, 0xa66d, 1},
		{0xa680, 0xa69b, 1}, {0xa722, 0xa76f, 1}, {0xa771, 0xa787, 1}, {0xa78b, 0xa78e, 1},
		{0xab70, 0xabbf, 1}, {0xfb00, 0xfb06, 1}, {0xfb13, 0xfb17, 1}, {0xff21, 0xff3a, 1},
		{0xff41, 0xff5a, 1},
	},
	R32: []unicode.Range32{
		{0x10400, 0x1044f, 1}, {0x104b0, 0x104d3, 1}, {0x104d8, 0x104fb, 1}, {0x10c80, 0x10cb2, 1},
		{0x10cc0, 0x10cf2, 1}, {0x118a0, 0x118df, 1}, {0x1e900, 0x1e943, 1},
	},
}
