package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
)

// A verifier keeps some of the requests, to repeat them when the server is idle. The
// same seed must give the same text under any load.
type verifier struct {
	most int
	rand *rand.Rand
	seen int
	kept []kept
}

// kept is a request and its answer.
type kept struct {
	id, turn int
	body     []byte
	key      string
	stream   stream
	whole    bool // otherwise it was cancelled
}

// A verdict is the result of the verification.
type verdict struct {
	Asked    int      `json:"asked"`
	Failed   int      `json:"failed"` // had no answer when repeated
	Differ   int      `json:"differ"`
	Examples []string `json:"examples,omitempty"`
}

func newVerifier(most int, seed uint64) *verifier {
	return &verifier{most: most, rand: rand.New(rand.NewPCG(seed, streamVerify))}
}

// see samples requests uniformly (reservoir sampling).
func (v *verifier) see(r *result) {
	if v.most == 0 || !r.good() && !(r.cancelled && len(r.pieces) > 0) {
		return
	}
	k := kept{r.id, r.turn, r.body, r.key.key, r.stream, r.good()}
	v.seen++
	if len(v.kept) < v.most {
		v.kept = append(v.kept, k)
	} else if i := v.rand.IntN(v.seen); i < v.most {
		v.kept[i] = k
	}
}

// ask repeats each of the requests, one after the other.
func (v *verifier) ask(ctx context.Context, c *client, stderr io.Writer) *verdict {
	const examples = 5
	slices.SortFunc(v.kept, func(a, b kept) int { return cmp.Or(a.id-b.id, a.turn-b.turn) })
	var out verdict
	for i, k := range v.kept {
		fmt.Fprintf(stderr, "load: asking again alone: %d of %d\n", i+1, len(v.kept))
		alone := c.ask(ctx, k.body, k.key, 0)
		if alone.aborted {
			break
		}
		out.Asked++
		text := ""
		switch {
		case alone.failure != nil:
			out.Failed++
			text = alone.failure.Error()
		default:
			if text = k.difference(&alone.stream); text != "" {
				out.Differ++
			}
		}
		if text != "" && len(out.Examples) < examples {
			out.Examples = append(out.Examples, fmt.Sprintf("request %d, turn %d: %s", k.id, k.turn, text))
		}
	}
	return &out
}

// difference describes how an answer differs from the one given alone, if it does. Of a
// cancelled request only the beginning is compared.
func (k *kept) difference(alone *stream) string {
	for _, f := range []struct{ name, loaded, alone string }{
		{"reasoning", k.stream.reasoning, alone.reasoning},
		{"text", k.stream.text, alone.text},
		{"finish_reason", k.stream.finish, alone.finish},
	} {
		if f.loaded == f.alone || !k.whole && strings.HasPrefix(f.alone, f.loaded) {
			continue
		}
		at := 0
		for at < min(len(f.loaded), len(f.alone)) && f.loaded[at] == f.alone[at] {
			at++
		}
		const shown = 40
		cut := func(s string) string { return s[at:min(at+shown, len(s))] }
		return fmt.Sprintf("%s differs from byte %d on: %q under load, %q alone", f.name, at, cut(f.loaded), cut(f.alone))
	}
	return ""
}
