package quern

import (
	"context"
	"fmt"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/reading"
	"github.com/quern-llm/quern/go/rerank"
	"github.com/quern-llm/quern/go/tokenizer"
)

// Tokenize returns the tokens of a text, as a prompt has them: with what the model begins and ends one.
func (m *Model) Tokenize(text string) ([]int32, error) {
	leave, err := m.enter(context.Background())
	if err != nil {
		return nil, err
	}
	defer leave()
	return m.tok.Encode(text, tokenizer.Options{}), nil
}

// Detokenize returns the text of tokens. Those that are no text, such as the end of a turn, print nothing.
func (m *Model) Detokenize(tokens []int32) (string, error) {
	leave, err := m.enter(context.Background())
	if err != nil {
		return "", err
	}
	defer leave()
	for i, id := range tokens {
		if id < 0 || int(id) >= m.tok.Len() {
			return "", invalid(fmt.Sprintf("token %d is %d, want 0 to %d", i, id, m.tok.Len()-1))
		}
	}
	return m.tok.Detokenize(tokens, false), nil
}

// Embed returns a vector of length 1 for each text, [Info.VectorSize] numbers each, pooled as the model's file says. Sparse
// vectors, with a number for each token of the vocabulary, keep their length. Texts share passes. A text that is longer than
// the context is [ErrContextFull].
func (m *Model) Embed(ctx context.Context, texts ...string) ([][]float32, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	pooling := m.open.Engine.Pooling()
	if pooling == nn.PoolRank || pooling == nn.PoolNone || pooling == nn.PoolTokens {
		return nil, unsupported("the model makes scores, or a vector of each token, and no vector of a text")
	}
	all, err := m.read(ctx, pooling, len(texts), func(i int) (engine.Text, error) { return m.text(texts[i]) })
	if err != nil {
		return nil, classify(err, ErrInternal)
	}
	vectors := make([][]float32, len(all))
	for i, e := range all {
		vectors[i] = e.Vectors()[0]
		if !pooling.Sparse() {
			engine.Normalize(vectors[i], engine.Euclidean)
		}
	}
	return vectors, nil
}

// Ranked is a document with its score.
type Ranked struct {
	Index int // among the documents
	Score float64
}

// Rerank orders documents by what they have to say on a query, the best first: by the scores of a model that ranks, and by
// vectors with another one that makes them: their cosines, the products of sparse ones, or of a model with a vector for
// each token the sum over the query's of the greatest cosine.
func (m *Model) Rerank(ctx context.Context, query string, documents ...string) ([]Ranked, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	scores, err := m.scores(ctx, query, documents)
	if err != nil {
		return nil, classify(err, ErrInternal)
	}
	ranked := make([]Ranked, len(scores))
	for i, r := range rerank.Order(scores, 0) {
		ranked[i] = Ranked(r)
	}
	return ranked, nil
}

func (m *Model) scores(ctx context.Context, query string, documents []string) ([]float64, error) {
	scores := make([]float64, len(documents))
	if _, err := m.loop.Embedding(1, nn.PoolRank); err != nil { // it does not rank
		texts := append([]string{query}, documents...)
		pooling := m.open.Engine.Pooling()
		all, err := m.read(ctx, pooling, len(texts), func(i int) (engine.Text, error) { return m.text(texts[i]) })
		if err != nil {
			return nil, err
		}
		var vectors [][][]float32
		for _, e := range all[1:] {
			vectors = append(vectors, e.Vectors())
		}
		return rerank.Compare(pooling, all[0].Vectors(), vectors), nil
	}
	pairs := rerank.Model{Metadata: m.open.Head.File.GGUF, Tokenizer: m.tok, Encode: m.reads}
	pair, err := pairs.Pairing(query)
	if err != nil {
		return nil, err
	}
	all, err := m.read(ctx, nn.PoolRank, len(documents), func(i int) (engine.Text, error) { return pair(documents[i]) })
	if err != nil {
		return nil, err
	}
	for i, e := range all {
		scores[i] = float64(e.Vectors()[0][0])
	}
	return scores, nil
}

// reads returns the tokens of a text that is read, before which a prompt has so many others.
func (m *Model) reads(text string, o tokenizer.Options, before int) ([]int32, error) {
	return reading.Encode(m.tok, m.open.Engine.Ctx(), text, o, before)
}

// text is a text as it is read.
func (m *Model) text(s string) (engine.Text, error) {
	ids, err := m.reads(s, tokenizer.Options{ParseSpecial: true}, 0)
	return engine.Text{IDs: ids}, err
}

// read evaluates n texts and pools their vectors.
func (m *Model) read(ctx context.Context, pooling nn.Pooling, n int, text func(i int) (engine.Text, error)) ([]*engine.Embedding, error) {
	all := make([]*engine.Embedding, n)
	err := m.evaluate(ctx, n, func(i int) (*engine.Request, error) {
		read, err := text(i)
		if err != nil {
			return nil, err
		}
		if read.IDs = m.tok.Begin(read.IDs); len(read.IDs) == 0 {
			return nil, invalid("the text is empty")
		}
		if all[i], err = m.loop.Embedding(len(read.IDs), pooling); err != nil {
			return nil, err
		}
		_, from, _ := all[i].Reads()
		return &engine.Request{
			Params: generate.Params{Prompt: read.IDs}, Second: read.Second, Reader: all[i],
			NoCache: from == 0, // all of its tokens are evaluated, so the cache is of no use to it
		}, nil
	})
	if err != nil {
		return nil, err
	}
	for i, e := range all {
		if err := e.Err(); err != nil {
			return nil, &reading.TextError{Index: i, Err: err}
		}
	}
	return all, nil
}

// evaluate reads n texts. A few are with the loop at a time, so that texts which are generated have room.
func (m *Model) evaluate(ctx context.Context, n int, request func(i int) (*engine.Request, error)) error {
	window := reading.Window(len(m.loop.Status().Slots), m.open.Head.Config.BothWays)
	_, _, err := reading.Texts(ctx, m.loop.Submit, window, n, func(i int) (*engine.Request, error) {
		r, err := request(i)
		if err == nil {
			r.Sampling, r.TopLogprobs, r.Adapters, r.Slot = m.sampling, -1, m.open.Adapters, -1
		}
		return r, err
	})
	return err
}
