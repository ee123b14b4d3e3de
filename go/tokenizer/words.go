package tokenizer

import (
	"math/bits"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The functions here match at s[i] and return the end of the match, or i if
// there is none. Each stands for the regular expression above it. They
// are written out because they run on every byte of every prompt, and so that
// their time is linear for every text.

// other is [^\s\p{L}\p{N}].
func other(r rune) bool { return !unicode.IsSpace(r) && !unicode.IsLetter(r) && !unicode.IsNumber(r) }

// newline is [\r\n].
func newline(r rune) bool { return r == '\r' || r == '\n' }

// run returns the end of the longest run of characters of a class.
func run(s string, i int, class func(rune) bool) int {
	for i < len(s) {
		r, size := utf8.DecodeRuneInString(s[i:])
		if !class(r) {
			break
		}
		i += size
	}
	return i
}

// runUpTo is run for at most n characters.
func runUpTo(n int, s string, i int, class func(rune) bool) int {
	for ; n > 0 && i < len(s); n-- {
		r, size := utf8.DecodeRuneInString(s[i:])
		if !class(r) {
			break
		}
		i += size
	}
	return i
}

// afterSpace matches an optional space followed by characters of the class.
//
//	[ ]?X+
func afterSpace(s string, i int, class func(rune) bool) int {
	if j := i + 1; s[i] == ' ' {
		if end := run(s, j, class); end > j {
			return end
		}
	}
	return run(s, i, class)
}

// spaced is afterSpace for any white space.
//
//	\s?X+
func spaced(s string, i int, class func(rune) bool) int {
	if r, size := utf8.DecodeRuneInString(s[i:]); unicode.IsSpace(r) {
		if end := run(s, i+size, class); end > i+size {
			return end
		}
	}
	return run(s, i, class)
}

// white leaves the last space of a run to the next word.
//
//	\s+(?!\S)|\s+
func white(s string, i int) int {
	end := run(s, i, unicode.IsSpace)
	if end == len(s) || end == i {
		return end
	}
	_, size := utf8.DecodeLastRuneInString(s[i:end])
	if end-size > i {
		return end - size
	}
	return end
}

// whiteLines is white, but takes white space up to the last line break whole.
//
//	\s*[\r\n]+|\s+(?!\S)|\s+
func whiteLines(s string, i int) int {
	end := run(s, i, unicode.IsSpace)
	if k := strings.LastIndexAny(s[i:end], "\r\n"); k >= 0 {
		return i + k + 1
	}
	return white(s, i)
}

// contraction matches the end of an English contraction. foldCase takes
// capitals too.
//
//	's|'t|'re|'ve|'m|'ll|'d
func contraction(s string, i int, foldCase bool) int {
	if s[i] != '\'' {
		return i
	}
	lower := func(j int) byte {
		if j >= len(s) {
			return 0
		}
		if foldCase && 'A' <= s[j] && s[j] <= 'Z' {
			return s[j] | 0x20
		}
		return s[j]
	}
	switch a, b := lower(i+1), lower(i+2); {
	case a == 's' || a == 't' || a == 'm' || a == 'd':
		return i + 2
	case a == 'r' && b == 'e' || a == 'v' && b == 'e' || a == 'l' && b == 'l':
		return i + 3
	}
	return i
}

// gpt2Words matches
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func gpt2Words(s string, i int) int {
	if end := contraction(s, i, false); end > i {
		return end
	}
	for _, class := range [...]func(rune) bool{unicode.IsLetter, unicode.IsNumber, other} {
		if end := afterSpace(s, i, class); end > i {
			return end
		}
	}
	return white(s, i)
}

// llama3Words matches
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
//	 ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func llama3Words(s string, i int) int { return llamaWords(s, i, 3, newline) }

// nanochatWords is llama3Words with numbers of one or two digits.
func nanochatWords(s string, i int) int { return llamaWords(s, i, 2, newline) }

// powersOfTwo cuts a piece of white space without line breaks into parts of up to 512 characters:
//
//	\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}
func powersOfTwo(s string, i int) (start, end int) {
	if r, _ := utf8.DecodeLastRuneInString(s); !unicode.IsSpace(r) || newline(r) {
		return len(s), len(s)
	}
	const most = 512
	chars := utf8.RuneCountInString(s[i:runUpTo(most, s, i, unicode.IsSpace)])
	return i, runUpTo(1<<(bits.Len(uint(chars))-1), s, i, unicode.IsSpace)
}

// qwen2Words is llama3Words with each digit alone.
func qwen2Words(s string, i int) int { return llamaWords(s, i, 1, newline) }

// seedWords is qwen2Words with line breaks apart from the signs before them:
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|
//	 ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+
func seedWords(s string, i int) int { return llamaWords(s, i, 1, nothing) }

func nothing(rune) bool { return false }

func llamaWords(s string, i, digits int, trailing func(rune) bool) int {
	if end := contraction(s, i, true); end > i {
		return end
	}
	return wordsWithout(s, i, digits, trailing)
}

// plainWords is qwen2Words without contractions.
func plainWords(s string, i int) int { return wordsWithout(s, i, 1, newline) }

// wordsWithout is llamaWords without contractions.
func wordsWithout(s string, i, digits int, trailing func(rune) bool) int {
	letters := i
	r, size := utf8.DecodeRuneInString(s[i:])
	if leads(r) {
		letters += size
	}
	if end := run(s, letters, unicode.IsLetter); end > letters {
		return end
	}
	return numbersSignsWhite(s, i, digits, trailing)
}

// qwen35Words matches
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|
//	 ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func qwen35Words(s string, i int) int {
	if end := contraction(s, i, true); end > i {
		return end
	}
	if r, size := utf8.DecodeRuneInString(s[i:]); leads(r) {
		if end := run(s, i+size, letterOrMark); end > i+size {
			return end
		}
	}
	if end := run(s, i, letterOrMark); end > i {
		return end
	}
	if end := runUpTo(1, s, i, unicode.IsNumber); end > i {
		return end
	}
	if end := afterSpace(s, i, sign); end > i {
		return run(s, end, newline)
	}
	return whiteLines(s, i)
}

// letterOrMark is [\p{L}\p{M}].
func letterOrMark(r rune) bool { return unicode.IsLetter(r) || unicode.IsMark(r) }

// sign is [^\s\p{L}\p{M}\p{N}].
func sign(r rune) bool { return other(r) && !unicode.IsMark(r) }

// leads reports whether a character may precede the letters of a word.
func leads(r rune) bool { return !newline(r) && !unicode.IsLetter(r) && !unicode.IsNumber(r) }

// numbersSignsWhite matches
//
//	\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+X*|\s*[\r\n]+|\s+(?!\S)|\s+
func numbersSignsWhite(s string, i, digits int, trailing func(rune) bool) int {
	if end := runUpTo(digits, s, i, unicode.IsNumber); end > i {
		return end
	}
	if end := afterSpace(s, i, other); end > i {
		return run(s, end, trailing)
	}
	return whiteLines(s, i)
}

// tekkenWords matches
//
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|
//	\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
func tekkenWords(s string, i int) int {
	return casedWords(s, i, 1, false, anyScript, newlineOrSlash)
}

// gpt4oWords is tekkenWords with a contraction at the end of letters, where there is one, and
// up to three digits together:
//
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
//	\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
func gpt4oWords(s string, i int) int {
	return casedWords(s, i, 3, true, anyScript, newlineOrSlash)
}

// youtuWords is gpt4oWords with each digit alone.
func youtuWords(s string, i int) int { return casedWords(s, i, 1, true, anyScript, newlineOrSlash) }

// newlineOrSlash is [\r\n/].
func newlineOrSlash(r rune) bool { return newline(r) || r == '/' }

// kimiWords is gpt4oWords with the characters of Chinese, whatever these are, apart:
//
//	[\p{Han}]+|
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
//	\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func kimiWords(s string, i int) int {
	if end := run(s, i, han); end > i {
		return end
	}
	return casedWords(s, i, 3, true, notHan, newline)
}

func casedWords(s string, i, digits int, contracted bool, c cases, trailing func(rune) bool) int {
	tail := func(end int) int {
		if contracted && end < len(s) {
			return contraction(s, end, true)
		}
		return end
	}
	letters := i
	r, size := utf8.DecodeRuneInString(s[i:])
	if leads(r) {
		letters += size
	}
	for _, form := range [...]func(string, int) int{c.capitalsSmall, c.capitals} {
		if end := form(s, letters); end > letters {
			return tail(end)
		}
		// A mark may lead a word or be part of it.
		if end := form(s, i); letters > i && end > i {
			return tail(end)
		}
	}
	return numbersSignsWhite(s, i, digits, trailing)
}

// cases are the classes of characters of the upper-case and the lower-case part of a word.
type cases struct{ capital, small func(rune) bool }

var (
	anyScript = cases{capital, small}
	notHan    = cases{
		func(r rune) bool { return capital(r) && !han(r) },
		func(r rune) bool { return small(r) && !han(r) },
	}
)

func han(r rune) bool { return unicode.Is(unicode.Han, r) }

// capital reports whether a character may be in the upper-case part of a word. Letters without case, and
// marks, may be in both parts.
func capital(r rune) bool {
	return unicode.In(r, unicode.Lu, unicode.Lt, unicode.Lm, unicode.Lo, unicode.M)
}

// small reports whether a character may be in the lower-case part of a word.
func small(r rune) bool { return unicode.In(r, unicode.Ll, unicode.Lm, unicode.Lo, unicode.M) }

// capitalsSmall matches
//
//	[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+
func (c cases) capitalsSmall(s string, i int) int {
	turn := run(s, i, c.capital)
	if end := run(s, turn, c.small); end > turn {
		return end
	}
	// The small part must then come out of the capital one: its last
	// character that is both.
	for turn > i {
		r, size := utf8.DecodeLastRuneInString(s[i:turn])
		if c.small(r) {
			return turn
		}
		turn -= size
	}
	return i
}

// capitals matches
//
//	[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*
func (c cases) capitals(s string, i int) int {
	if turn := run(s, i, c.capital); turn > i {
		return run(s, turn, c.small)
	}
	return i
}

// Stages of the families that cut in several steps.

// lineBreak matches
//
//	[\r\n]
func lineBreak(s string, i int) int { return runUpTo(1, s, i, newline) }

// oneNumber matches
//
//	\p{N}
func oneNumber(s string, i int) int { return runUpTo(1, s, i, unicode.IsNumber) }

// numbers matches
//
//	\p{N}+
func numbers(s string, i int) int { return run(s, i, unicode.IsNumber) }

// sentinel matches
//
//	<sentinel:[0-9]+>
func sentinel(s string, i int) int {
	const open = "<sentinel:"
	if !strings.HasPrefix(s[i:], open) {
		return i
	}
	digits := i + len(open)
	if end := run(s, digits, asciiDigit); end > digits && strings.HasPrefix(s[end:], ">") {
		return end + 1
	}
	return i
}

// imageToken matches
//
//	IMGIMG[A-I]{1,4}Z
func imageToken(s string, i int) int {
	const open = "IMGIMG"
	if !strings.HasPrefix(s[i:], open) {
		return i
	}
	letters := i + len(open)
	end := runUpTo(4, s, letters, func(r rune) bool { return 'A' <= r && r <= 'I' })
	if end > letters && strings.HasPrefix(s[end:], "Z") {
		return end + 1
	}
	return i
}

// tabOrSpaces matches
//
//	[\t\n]|    |[ ][ ]
func tabOrSpaces(s string, i int) int {
	if s[i] == '\t' || s[i] == '\n' {
		return i + 1
	}
	for _, spaces := range [...]string{"    ", "  "} {
		if strings.HasPrefix(s[i:], spaces) {
			return i + len(spaces)
		}
	}
	return i
}

// oneSign matches
//
//	[\p{P}!-/:-@\[-`{-~]
func oneSign(s string, i int) int {
	return runUpTo(1, s, i, func(r rune) bool { return unicode.IsPunct(r) || asciiSign(r) })
}

// asciiDigit is [0-9].
func asciiDigit(r rune) bool { return '0' <= r && r <= '9' }

// threeDigits matches
//
//	[0-9][0-9][0-9]
func threeDigits(s string, i int) int {
	if end := runUpTo(3, s, i, asciiDigit); end == i+3 {
		return end
	}
	return i
}

// signs matches
//
//	[\p{P}\$\+<=>\^~\|]+
func signs(s string, i int) int {
	return run(s, i, func(r rune) bool { return unicode.IsPunct(r) || r < 0x80 && strings.ContainsRune("$+<=>^~|", r) })
}

// signsOrBacktick matches
//
//	[\p{P}\$\+<=>\^~\|`]+
func signsOrBacktick(s string, i int) int {
	return run(s, i, func(r rune) bool { return unicode.IsPunct(r) || r < 0x80 && strings.ContainsRune("$+<=>^~|`", r) })
}

// bloomWords matches
//
//	?[^(\s|.,!?…。，、।۔،)]+
func bloomWords(s string, i int) int {
	return afterSpace(s, i, func(r rune) bool {
		return !unicode.IsSpace(r) && !strings.ContainsRune("(|.,!?…。，、।۔،)", r)
	})
}

// linesAndBreaks matches
//
//	[^\n]+|[\n]+
func linesAndBreaks(s string, i int) int {
	breaks := s[i] == '\n'
	return run(s, i, func(r rune) bool { return (r == '\n') == breaks })
}

// exaoneWords matches words with single spaces between them, and
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}|
//	 ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+
func exaoneWords(s string, i int) int {
	if end := contraction(s, i, true); end > i {
		return end
	}
	letters := i
	if r, size := utf8.DecodeRuneInString(s[i:]); leads(r) {
		letters += size
	}
	if end := spacedWords(s, letters); end > letters {
		return end
	}
	if end := oneNumber(s, i); end > i {
		return end
	}
	if end := afterSpace(s, i, other); end > i {
		return runUpTo(1, s, end, newlineOrSlash)
	}
	return whiteLines(s, i)
}

// spacedWords matches
//
//	(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+
func spacedWords(s string, i int) int {
	for at := i; ; {
		next := runUpTo(1, s, at, unicode.IsLetter)
		if next == at {
			return i // without the space before at
		}
		i = run(s, next, unicode.IsMark)
		at = i
		if at < len(s) && s[at] == ' ' {
			at++
		}
	}
}

// thousands cuts digits into groups of three from the right, where no letter follows them:
//
//	\d{1,3}(?=(?:\d{3})*\b)
func thousands(s string, i int) (start, end int) {
	return groupsOfThree(s, i, func(start, end int) (int, int) {
		if after, _ := utf8.DecodeRuneInString(s[end:]); end < len(s) && wordPart(after) {
			return end, end
		}
		n := utf8.RuneCountInString(s[start:end])
		return start, runUpTo((n+2)%3+1, s, start, unicode.IsDigit)
	})
}

// threes cuts groups of three digits off the right end of digits, and leaves what is before them where it is:
//
//	\d{3}(?=(?:\d{3})*(?!\d))
func threes(s string, i int) (start, end int) {
	return groupsOfThree(s, i, func(start, end int) (int, int) {
		n := utf8.RuneCountInString(s[start:end])
		if n < 3 {
			return end, end
		}
		start = runUpTo(n%3, s, start, unicode.IsDigit)
		return start, runUpTo(3, s, start, unicode.IsDigit)
	})
}

// groupsOfThree finds the next group of digits. first cuts the first one off a run of them, an empty one where the run
// has none; those that follow have three digits.
func groupsOfThree(s string, i int, first func(start, end int) (int, int)) (start, end int) {
	if before, _ := utf8.DecodeLastRuneInString(s[:i]); unicode.IsDigit(before) {
		// A match ended here, and left a multiple of three digits.
		if end = runUpTo(3, s, i, unicode.IsDigit); end > i {
			return i, end
		}
	}
	for i < len(s) {
		next := strings.IndexFunc(s[i:], unicode.IsDigit)
		if next < 0 {
			break
		}
		all := run(s, i+next, unicode.IsDigit)
		if start, end = first(i+next, all); start < end {
			return start, end
		}
		i = all
	}
	return len(s), len(s)
}

// groupedDigits cuts all digits into groups of three from the right:
//
//	\d{1,3}(?=(?:\d{3})*(?!\d))
func groupedDigits(s string, i int) (start, end int) {
	return groupsOfThree(s, i, func(start, end int) (int, int) {
		n := utf8.RuneCountInString(s[start:end])
		return start, runUpTo((n+2)%3+1, s, start, unicode.IsDigit)
	})
}

// wordPart is \w.
func wordPart(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Pc)
}

// spacedLetters matches
//
//	\s?\p{L}+
func spacedLetters(s string, i int) int { return spaced(s, i, unicode.IsLetter) }

// spacedPunctuation matches
//
//	\s?\p{P}+
func spacedPunctuation(s string, i int) int { return spaced(s, i, unicode.IsPunct) }

// trailingSpace finds white space that ends the text.
//
//	\s+$
func trailingSpace(s string, i int) (int, int) {
	return i + len(strings.TrimRightFunc(s[i:], unicode.IsSpace)), len(s)
}
