package finetune_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/finetune"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/train/data"
)

// ranked are n queries, each with so many answers, from number `from` on.
func ranked(from, n, answers int) (all []data.Comparison) {
	for q := from; q < from+n; q++ {
		for a := range answers {
			all = append(all, data.Comparison{Query: fmt.Sprintf("q%d", q), Documents: []string{fmt.Sprintf("d%d.%d", q, a)}})
		}
	}
	return all
}

// bytesOf encodes each byte as a token.
func bytesOf(text string) (ids []int32) {
	for _, b := range []byte(text) {
		ids = append(ids, int32(b))
	}
	return ids
}

// encoder encodes texts as bytes, for an embedding model or a reranker.
func encoder(pooling nn.Pooling) *finetune.Encoder {
	return &finetune.Encoder{
		Config: &nn.Config{Arch: "bert", Pooling: pooling, MaxText: 64}, Query: bytesOf, Document: bytesOf, Text: bytesOf,
		Pair: func(query, document string) ([]int32, int, error) {
			return bytesOf(query + " " + document), len(query), nil
		},
	}
}

// An answer is found among those to other queries, so there must be some, also where the loss of others is measured.
func TestHeldOutQueriesAreSeveral(t *testing.T) {
	s := finetune.Defaults()
	for _, c := range []struct {
		learn, held         []data.Comparison
		wantLearn, wantHeld int
		err                 string
	}{
		{learn: ranked(0, 20, 1), wantLearn: 20}, // a share of it is a single query
		{learn: ranked(0, 20, 2), wantLearn: 40},
		{learn: ranked(0, 20, 1), held: ranked(20, 2, 1), wantLearn: 20, wantHeld: 2},
		{learn: ranked(0, 20, 1), held: ranked(20, 1, 3), err: "held-out"},
		{learn: ranked(0, 1, 3), err: "single query"},
	} {
		p, err := finetune.NewComparison(encoder(nn.PoolMean), c.learn, c.held, 64, s)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want one with %q", err, c.err)
			}
			continue
		}
		if err != nil || p.Learnt.Examples != c.wantLearn || p.HeldOut.Examples != c.wantHeld || (p.Every > 0) != (c.wantHeld > 0) {
			t.Errorf("%d learnt, %d held out, every %d: %v", p.Learnt.Examples, p.HeldOut.Examples, p.Every, err)
		}
	}
}

// What is held out of a reranker's training stands in for nothing that is learnt.
func TestStandInsAreLearnt(t *testing.T) {
	p, err := finetune.NewComparison(encoder(nn.PoolRank), ranked(0, 10, 1), ranked(50, 2, 1), 64, finetune.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	of := func(texts []model.Text, document string) bool {
		return slices.ContainsFunc(texts, func(x model.Text) bool { return strings.HasSuffix(string(x.Tokens), document) })
	}
	if len(p.Texts) != 50 || of(p.Texts, "d50.0") || of(p.Texts, "d51.0") || !of(p.Texts, "d9.0") || len(p.Held) != 10 || !of(p.Held, "d50.0") {
		t.Errorf("%d texts, %d held out", len(p.Texts), len(p.Held))
	}
}
