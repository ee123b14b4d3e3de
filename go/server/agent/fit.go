package agent

import (
	"context"
	"fmt"

	"github.com/quern-llm/quern/go/tokenizer"
)

// What a tool answers is cut to what the context has room for, so that the model goes on. The end of a long answer is left
// out: what comes first is what most tools and pages put first.
const (
	answerShare = 8  // 1/answerShare of the context is left to the model's answer, unless that may have fewer tokens
	callTokens  = 64 // what a template puts around a call and its result, at most, where that is not measured
	heldBytes   = 4  // for each byte of a result: its item, the JSON of that, and the conversation of the next pass
	shownTokens = 6  // of each byte of a result, at most: a template may show it as JSON, with \u0000 for a byte
	fitTries    = 6  // of cutting a result, each of which makes the prompt again
)

const noRoom = "the context has no room for more"

// fit cuts the result of a call to its share of the room in the context: what is left to the answer is not shared, and the
// rest is, evenly, by the calls that are still to be made before the model goes on, this one included.
func (l *Loop) fit(ctx context.Context, c *Call, calls int, first bool) {
	if c.silent() {
		return
	}
	if !l.g.Ledger.Hold(heldBytes * len(c.Told)) {
		c.fail(Lost, "the server has no memory for what it answered")
		return
	}
	room := l.g.Model.Ctx - l.reserve()
	// What is surely short enough is not measured.
	grown := l.grown + callTokens
	defer func() { l.grown = grown + shownTokens*len(c.Told) }()
	l.grown = grown + shownTokens*len(c.Told)
	if !first && len(l.g.Prompts) > 0 && len(l.g.Prompts[0])+l.g.First.Generated+l.grown+callTokens*calls <= room {
		return
	}
	// Where the prompt cannot be made, the next pass has the same error.
	taken, err := l.measure(ctx, first)
	if err != nil {
		return
	}
	whole, share := *c, max((room-taken)/calls, 0)
	for try, most := 0, share; ; try++ {
		if *c = whole; c.cutTokens(l.g.Model.Tokenizer, most, noRoom) || most == 0 {
			return
		}
		// Templates that show results as JSON make more tokens of them: what the prompt has now is what counts.
		if l.of.Place(c) != nil {
			return
		}
		now, err := l.measure(ctx, first)
		if err != nil || now-taken <= share {
			return
		}
		if most = most * share / (now - taken); try > 0 { // the beginning is made of more tokens than the rest
			most -= most / 8
		}
		if try == fitTries {
			most = 0
		}
	}
}

// reserve is how many tokens of the context are left to the answer.
func (l *Loop) reserve() int {
	n := l.g.Model.Ctx / answerShare
	if left := l.left(); left >= 0 {
		n = min(n, left)
	}
	return n
}

// measure returns the tokens of the next pass's prompt as it is now: calls that are still to be made have empty results.
func (l *Loop) measure(ctx context.Context, first bool) (int, error) {
	q, err := l.of.Following(l.left(), first)
	if err != nil {
		return 0, err
	}
	pass, err := l.g.Request.AdmitLater(ctx, q.Length())
	if err != nil {
		return 0, err
	}
	defer pass.Release()
	q.CountsPrompts()
	src, err := q.Source(ctx, l.g.Model)
	if err != nil {
		return 0, err
	}
	return len(src.Prompts[0]), nil
}

// cutTokens cuts what the model is told to so many tokens, and says so where it had more. nothing: none of it is left.
func (c *Call) cutTokens(t *tokenizer.Tokenizer, most int, why string) (nothing bool) {
	n, kept := cutTokens(t, c.Told, most, why)
	if n < 0 && c.Told != "" {
		c.cut(0, leftOut)
		return true
	}
	if 0 <= n && n < len(c.Told) {
		c.cut(n, kept)
	}
	return false
}

const leftOut = "(left out: the context has no room for what it answered)"

// cutTokens returns how many bytes of a text have, with what then says that there was more, so many tokens at most; -1: none.
func cutTokens(t *tokenizer.Tokenizer, text string, most int, why string) (n int, note string) {
	n = len(text)
	for n > 0 {
		has := len(t.EncodePart(text[:n] + note))
		if has <= most {
			return n, note
		}
		n = len(head(text, min(n-1, n*max(most, 0)/has)))
		note = fmt.Sprintf("\n(cut after %d bytes: %s)", n, why)
	}
	return -1, ""
}

// head returns the first n bytes of a text, or fewer where these end within a character.
func head(text string, n int) string {
	if n >= len(text) {
		return text
	}
	for n > 0 && text[n]&0xc0 == 0x80 {
		n--
	}
	return text[:n]
}
