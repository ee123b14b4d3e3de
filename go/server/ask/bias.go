package ask

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A bias applies to a token, or to all tokens of a text.
type bias struct {
	id    int32 // -1: those of text
	text  string
	value float32
}

// biases are written [[token, bias], ...] or {"token": bias, ...}.
type biases struct {
	given []bias
	sum   []sample.Bias // by token, set by settle
}

const wantBias = `an object such as {"15043": 1.5} or an array such as [[15043, 1.5], [" text", false]]`

func (b *biases) Take(r *field.Reader) error {
	*b = biases{}
	if r.Kind() == '[' {
		return r.Elements(wantBias, func(int) error { return b.pair(r) })
	}
	return r.Members(wantBias, func(name string) error {
		one := bias{text: name, id: -1}
		if isInteger(name) {
			id, err := strconv.ParseInt(name, 10, 32)
			if err != nil || id < 0 {
				return fmt.Errorf("token %s is not in the vocabulary, want a token id or a text", field.Quote(name))
			}
			one = bias{id: int32(id)}
		}
		b.given = append(b.given, one)
		return b.amount(r)
	})
}

func isInteger(s string) bool {
	digits := strings.TrimLeft(s, "+-")
	return digits != "" && strings.Trim(digits, "0123456789") == ""
}

// pair reads [token, bias].
func (b *biases) pair(r *field.Reader) error {
	n := 0
	err := r.Elements(wantBias, func(i int) error {
		n++
		switch {
		case i > 1:
			return r.Wrong(wantBias)
		case i == 1:
			return b.amount(r)
		}
		one := bias{id: -1}
		var err error
		if r.Kind() == '"' {
			one.text, err = r.Text(wantBias)
		} else {
			err = field.Integer(&one.id, 0, math.MaxInt32).Take(r)
		}
		b.given = append(b.given, one)
		return err
	})
	if err == nil && n != 2 {
		err = fmt.Errorf("an array of %d, want %s", n, wantBias)
	}
	return err
}

// amount reads the value of the last bias. false bans a token.
func (b *biases) amount(r *field.Reader) error {
	value := &b.given[len(b.given)-1].value
	if r.Kind() == 'f' {
		*value = float32(math.Inf(-1))
		_, err := r.Token()
		return err
	}
	return field.Float(value, -1e6, 1e6).Take(r)
}

// A shownBias is a bias as the settings of an answer show it. null bans the token.
type shownBias struct {
	Bias  *float32 `json:"bias"`
	Token int32    `json:"token"`
}

func (b *biases) Value() any {
	shown := []shownBias{}
	for _, one := range b.sum {
		s := shownBias{Token: one.ID}
		if !math.IsInf(float64(one.Value), -1) {
			s.Bias = &one.Value
		}
		shown = append(shown, s)
	}
	return shown
}

func (b *biases) Schema() field.Schema {
	value := field.Schema{"anyOf": []field.Schema{{"type": "number"}, {"const": false}}}
	return field.Schema{"description": wantBias, "anyOf": []field.Schema{
		{"type": "object", "additionalProperties": value},
		{"type": "array", "items": field.Schema{"type": "array", "minItems": 2, "maxItems": 2}},
	}}
}

// Settle sums the biases of each token, in order of id, so that the order in which they
// were given does not matter. It refuses tokens that the model does not have.
func (b *biases) Settle(m *Model, ignoreEOS bool) error {
	sum := map[int32]float32{}
	for _, one := range b.given {
		ids := []int32{one.id}
		if one.id < 0 {
			ids = m.Tokenizer.Encode(one.text, tokenizer.Options{NoSpecial: true, ParseSpecial: true})
		} else if int(one.id) >= m.Tokenizer.Len() {
			return reply.Invalid("logit_bias", "token %d is not in the vocabulary, want 0 to %d", one.id, m.Tokenizer.Len()-1)
		}
		for _, id := range ids {
			sum[id] += one.value
		}
	}
	if ignoreEOS {
		for _, id := range m.Tokenizer.EOG() {
			sum[id] = float32(math.Inf(-1))
		}
	}
	for id, value := range sum {
		b.sum = append(b.sum, sample.Bias{ID: id, Value: value})
	}
	slices.SortFunc(b.sum, func(a, b sample.Bias) int { return int(a.ID) - int(b.ID) })
	return nil
}
