// Package rerank orders documents by what they have to say on a query: it makes the tokens of a query and a document
// for models with a classifier, compares vectors for others, and sorts by the scores.
package rerank

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A Model is what is read of a model's file.
type Model struct {
	Metadata  tokenizer.Metadata
	Tokenizer *tokenizer.Tokenizer
	// Encode returns the tokens of a text, before which a prompt has so many others.
	Encode func(text string, o tokenizer.Options, before int) ([]int32, error)
}

// Pairing returns what makes tokens of the query and a document: by the file's template for
// them, or with what the vocabulary puts between two texts. Then the query is encoded once.
func (m *Model) Pairing(query string) (pair func(document string) (engine.Text, error), err error) {
	tok := m.Tokenizer
	if v, _ := m.Metadata.Value("tokenizer.chat_template.rerank"); v != nil {
		if template, ok := v.(string); ok {
			return func(document string) (engine.Text, error) {
				whole, literal := fill(template, map[string]string{"{query}": query, "{document}": document})
				ids, err := m.Encode(whole, tokenizer.Options{NoSpecial: true, ParseSpecial: true, Literal: literal}, 0)
				return engine.Text{IDs: ids}, err
			}, nil
		}
	}
	var head, tail []int32
	if bos, ok := tok.BOS(); ok && tok.AddBOS() {
		head = append(head, bos)
	}
	plain := tokenizer.Options{NoSpecial: true}
	asked, err := m.Encode(query, plain, len(head))
	if err != nil {
		return nil, err
	}
	head = append(head, asked...)
	if eos, ok := tok.EOS(); ok && tok.AddEOS() {
		head, tail = append(head, eos), append(tail, eos)
	}
	sep, ok, err := m.separator()
	if err != nil {
		return nil, err
	}
	if ok {
		head = append(head, sep)
	}
	types, err := m.types()
	if err != nil {
		return nil, err
	}
	second := 0
	if types {
		second = len(head)
	}
	return func(document string) (engine.Text, error) {
		ids, err := m.Encode(document, plain, len(head))
		return engine.Text{IDs: slices.Concat(head, ids, tail), Second: second}, err
	}, nil
}

// Keys of pairs that GGUF lacks: see quern.tokenizer in docs/models.md.
const (
	pairSeparator = "quern.tokenizer.pair_separator"
	pairTypes     = "quern.tokenizer.pair_types"
)

// says returns what one of these keys says, and whether the file has it.
func (m *Model) says(key string) (on, given bool, err error) {
	v, given := m.Metadata.Value(key)
	on, ok := v.(bool)
	if given && !ok {
		err = fmt.Errorf("%s is %T, want true or false", key, v)
	}
	return on, given, err
}

// types reports whether the document has the second token type. Unless the file says otherwise, BERT's vocabularies
// have it so, and all others, among them those of RoBERTa and XLM-R, have one type.
func (m *Model) types() (bool, error) {
	on, given, err := m.says(pairTypes)
	if given {
		return on, err
	}
	v, _ := m.Metadata.Value("tokenizer.ggml.model")
	return v == "bert", nil
}

// fill returns a template with texts in place of their names, and where these texts are.
func fill(template string, texts map[string]string) (whole string, literal [][2]int) {
	var b strings.Builder
	for at := 0; at < len(template); {
		name := ""
		for n := range texts {
			if strings.HasPrefix(template[at:], n) {
				name = n
			}
		}
		if name == "" {
			b.WriteByte(template[at])
			at++
			continue
		}
		if text := texts[name]; text != "" {
			literal = append(literal, [2]int{b.Len(), b.Len() + len(text)})
			b.WriteString(text)
		}
		at += len(name)
	}
	return b.String(), literal
}

// separator returns the token that goes between two texts beside EOS: RoBERTa's vocabularies, and those
// made from them, have one.
func (m *Model) separator() (id int32, ok bool, err error) {
	own, _, err := m.says(pairSeparator)
	if err != nil {
		return 0, false, err
	}
	value := func(key string) any { v, _ := m.Metadata.Value("tokenizer.ggml." + key); return v }
	switch asked, given := value("add_sep_token").(bool); {
	case own:
	case value("model") == "bert": // its EOS is the separator
		return 0, false, nil
	case given && !asked, !given && value("pre") != "roberta-bpe":
		return 0, false, nil
	}
	if sep, ok := value("seperator_token_id").(uint32); ok && int(sep) < m.Tokenizer.Len() {
		return int32(sep), true, nil
	}
	id, ok = m.Tokenizer.EOS()
	return id, ok, nil
}

// Compare returns the scores of documents by the vectors that a pooling made of them and of the query: of one vector for
// each token the sum over the query's of their greatest cosine (MaxSim, Khattab and Zaharia 2020), of sparse ones the
// product, and of others the cosine. All but sparse ones get length 1.
func Compare(pooling nn.Pooling, query [][]float32, documents [][][]float32) []float64 {
	if !pooling.Sparse() {
		for _, rows := range append(slices.Clone(documents), query) {
			for _, v := range rows {
				engine.Normalize(v, engine.Euclidean)
			}
		}
	}
	scores := make([]float64, len(documents))
	for i, rows := range documents {
		for _, q := range query {
			best := math.Inf(-1)
			for _, v := range rows {
				dot := 0.0
				for k := range v {
					dot += float64(q[k]) * float64(v[k]) // exact products: fused with the sum, it is the same
				}
				best = max(best, dot)
			}
			scores[i] += best
		}
	}
	return scores
}

// A Ranked is a document with its score.
type Ranked struct {
	Index int
	Score float64
}

// Order returns the documents with these scores, the best first, and of equal ones the first; at most `most`, if that
// is not 0.
func Order(scores []float64, most int) []Ranked {
	all := make([]Ranked, len(scores))
	for i, score := range scores {
		all[i] = Ranked{i, score}
	}
	slices.SortStableFunc(all, func(a, b Ranked) int { return cmp.Compare(b.Score, a.Score) })
	if most > 0 {
		all = all[:min(most, len(all))]
	}
	return all
}
