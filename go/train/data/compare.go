package data

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// A Comparison is what embedding models, rerankers and classifiers learn from: texts that are compared, or a text with classes.
type Comparison struct {
	Where string // FILE:LINE
	Query string
	// Documents are what is compared with the query. The first belongs to it, and others do not; with a score there are one or two.
	// A text with classes has none, and a pair of texts with classes the second.
	Documents []string
	Score     *float64 // the cosine that the query and its document should have, or a teacher's difference of two documents' scores
	Classes   []string // names or numbers of classes that the query is of
	Classed   bool     // it is a text, or a pair, with classes, which may be none
	Several   bool     // its classes were a list, so that it may be of any number of them
}

// first is a field under any of its names, of which one at most is there.
func first[T any](fields ...*T) *T {
	for _, x := range fields {
		if x != nil {
			return x
		}
	}
	return nil
}

// texts reads a text, or a list of them.
func texts(value jsontext.Value, field string) (all []string, err error) {
	switch value.Kind() {
	case '"':
		var one string
		if err = unmarshal(value, &one); err == nil {
			all = []string{one}
		}
	case '[':
		err = unmarshal(value, &all)
	default:
		err = errors.New("want a text, or a list of texts")
	}
	for i, x := range all {
		if x == "" && err == nil {
			err = fmt.Errorf("text %d is empty", i+1)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return all, nil
}

// parseRanked reads a query with what answers it, and perhaps with what does not. Of several answers each makes a record.
func parseRanked(value jsontext.Value) (all []Comparison, err error) {
	var in struct {
		Query     *string        `json:"query"`
		Anchor    *string        `json:"anchor"`
		Positive  jsontext.Value `json:"positive"`
		Pos       jsontext.Value `json:"pos"`
		Negative  jsontext.Value `json:"negative"`
		Negatives jsontext.Value `json:"negatives"`
		Neg       jsontext.Value `json:"neg"`
		Margin    *float64       `json:"margin"`
	}
	if err := unmarshal(value, &in); err != nil {
		return nil, err
	}
	query := first(in.Query, in.Anchor)
	if query == nil || *query == "" {
		return nil, errors.New("query or anchor: missing or empty")
	}
	answer, name := in.Positive, "positive"
	if answer == nil {
		answer, name = in.Pos, "pos"
	}
	answers, err := texts(answer, name)
	if err == nil && len(answers) == 0 {
		err = fmt.Errorf("%s: no text", name)
	}
	if err != nil {
		return nil, err
	}
	var others []string
	for _, x := range []struct {
		value jsontext.Value
		name  string
	}{{in.Negative, "negative"}, {in.Negatives, "negatives"}, {in.Neg, "neg"}} {
		if x.value == nil || x.value.Kind() == 'n' {
			continue
		}
		more, err := texts(x.value, x.name)
		if err != nil {
			return nil, err
		}
		others = append(others, more...)
	}
	if in.Margin != nil && (len(answers) != 1 || len(others) != 1) {
		return nil, fmt.Errorf("margin: it is of one text that answers and one that does not, not of %d and %d", len(answers), len(others))
	}
	for _, x := range answers {
		all = append(all, Comparison{Query: *query, Documents: append([]string{x}, others...), Score: in.Margin})
	}
	return all, nil
}

// parseScored reads two texts with the cosine that they should have.
func parseScored(value jsontext.Value) (x Comparison, err error) {
	var in struct {
		First  string   `json:"sentence1"`
		Second string   `json:"sentence2"`
		Score  *float64 `json:"score"`
	}
	if err := unmarshal(value, &in); err != nil {
		return x, err
	}
	switch {
	case in.First == "" || in.Second == "":
		return x, errors.New("sentence1 and sentence2: missing or empty")
	case in.Score == nil || !(math.Abs(*in.Score) <= 1):
		return x, errors.New("score: want a cosine, from -1 to 1")
	}
	return Comparison{Query: in.First, Documents: []string{in.Second}, Score: in.Score}, nil
}

// parseClassified reads a text, or a pair, with its class: a name or a number, or a list of these where it may be of several.
func parseClassified(value jsontext.Value) (x Comparison, err error) {
	var in struct {
		Text  string             `json:"text"`
		Pair  *string            `json:"text_pair"`
		Label stdjson.RawMessage `json:"label"`
	}
	if err := unmarshal(value, &in); err != nil {
		return x, err
	}
	if in.Text == "" {
		return x, errors.New("text: missing or empty")
	}
	x = Comparison{Query: in.Text, Classed: true}
	if in.Pair != nil {
		if *in.Pair == "" {
			return x, errors.New("text_pair: empty")
		}
		x.Documents = []string{*in.Pair}
	}
	labels := []stdjson.RawMessage{in.Label}
	if bytes.HasPrefix(bytes.TrimSpace(in.Label), []byte("[")) {
		if err := stdjson.Unmarshal(in.Label, &labels); err != nil {
			return x, fmt.Errorf("label: %w", err)
		}
		x.Several = true
	}
	for _, l := range labels {
		var name string
		var number int
		switch {
		case stdjson.Unmarshal(l, &name) == nil && name != "":
		case stdjson.Unmarshal(l, &number) == nil && string(l) != "null":
			name = strconv.Itoa(number)
		default:
			return x, errors.New("label: want the name or the number of a class, or a list of them")
		}
		x.Classes = append(x.Classes, name)
	}
	return x, nil
}

// hash is a number of a comparison that depends on its query alone, so that all answers to one are held out together.
func (x *Comparison) hash() uint64 {
	e := Example{Text: x.Query}
	return e.hash()
}

// SplitCompared is Split of comparisons, by their queries.
func SplitCompared(all []Comparison, share float64) (learnt, held []Comparison) {
	return split(all, share, (*Comparison).hash)
}
