package openai

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

// fit cuts the result of a call to its share of the room in the context: what is left to the answer is not shared, and the
// rest is, evenly, by the calls that are still to be made before the model goes on, this one included.
func (f *responsesFormat) fit(ctx context.Context, p *pendingCall, calls int, first bool) {
	it := p.item
	text := it.told()
	if text == nil {
		return
	}
	if !f.g.Ledger.Hold(heldBytes * len(*text)) {
		it.fail("the server has no memory for what it answered")
		return
	}
	room := f.g.Model.Ctx - f.reserve()
	// What is surely short enough is not measured.
	grown := f.grown + callTokens
	defer func() { f.grown = grown + shownTokens*len(*text) }()
	f.grown = grown + shownTokens*len(*text)
	if !first && len(f.g.Prompts) > 0 && len(f.g.Prompts[0])+f.g.First.Generated+f.grown+callTokens*calls <= room {
		return
	}
	// Where the prompt cannot be made, the next pass has the same error.
	taken, err := f.measure(ctx, first)
	if err != nil {
		return
	}
	whole, share := *text, max((room-taken)/calls, 0)
	for try, most := 0, share; ; try++ {
		if *text = cutTokens(f.g.Model.Tokenizer, whole, most); most == 0 {
			return
		}
		// Templates that show results as JSON make more tokens of them: what the prompt has now is what counts.
		if f.place(p.at, it) != nil {
			return
		}
		now, err := f.measure(ctx, first)
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
func (f *responsesFormat) reserve() int {
	n := f.g.Model.Ctx / answerShare
	if left := f.left(); left >= 0 {
		n = min(n, left)
	}
	return n
}

// measure returns the tokens of the next pass's prompt as it is now: calls that are still to be made have empty results.
func (f *responsesFormat) measure(ctx context.Context, first bool) (int, error) {
	q, err := f.following(first)
	if err != nil {
		return 0, err
	}
	pass, err := f.g.Request.AdmitLater(ctx, q.length())
	if err != nil {
		return 0, err
	}
	defer pass.Release()
	q.Counted = true
	src, err := q.Source(ctx, f.g.Model)
	if err != nil {
		return 0, err
	}
	return len(src.Prompts[0]), nil
}

// cutTokens returns a result of at most so many tokens, and says so where it had more.
func cutTokens(t *tokenizer.Tokenizer, text string, most int) string {
	cut, n := text, len(text)
	for n > 0 {
		has := len(t.EncodePart(cut))
		if has <= most {
			return cut
		}
		n = len(head(text, min(n-1, n*max(most, 0)/has)))
		cut = fmt.Sprintf("%s\n(cut after %d bytes: the context has no room for more)", text[:n], n)
	}
	return "(left out: the context has no room for what it answered)"
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
