package data_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/train/data"
)

// compared writes what is read of comparisons.
func compared(all []data.Comparison) string {
	var s []string
	for _, x := range all {
		score := ""
		if x.Score != nil {
			score = fmt.Sprint(" ", *x.Score)
		}
		s = append(s, fmt.Sprintf("%q %q %q%s", x.Query, x.Documents, x.Classes, score))
	}
	return strings.Join(s, "; ")
}

func TestComparisons(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"query":"q","positive":"a"}`, `"q" ["a"] []`},
		{`{"anchor":"q","positive":"a","negative":"b"}`, `"q" ["a" "b"] []`},
		{`{"query":"q","pos":["a","b"],"neg":["c","d"]}`, `"q" ["a" "c" "d"] []; "q" ["b" "c" "d"] []`},
		{`{"query":"q","positive":"a","negatives":null}`, `"q" ["a"] []`},
		{`{"query":"q","positive":"a","negative":"b","margin":0.5}`, `"q" ["a" "b"] [] 0.5`},
		{`{"sentence1":"a","sentence2":"b","score":-0.25}`, `"a" ["b"] [] -0.25`},
		{`{"text":"a","label":"good"}`, `"a" [] ["good"]`},
		{`{"text":"a","label":2}`, `"a" [] ["2"]`},
		{`{"text":"a","label":["good",0]}`, `"a" [] ["good" "0"]`},
		{`{"text":"a","label":[]}`, `"a" [] []`},
	} {
		set, err := data.ReadFrom(strings.NewReader(c.in), "f", data.Auto)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if got := compared(set.Compared); got != c.want || set.Len() != len(set.Compared) {
			t.Errorf("%s: %s, want %s", c.in, got, c.want)
		}
	}
	for _, c := range []struct{ in, want string }{
		{`{"query":"q","positive":["a"]}` + "\n" + `{"query":"q","positive":7}`, "f:2: positive"},
		{`{"query":"q","positive":[]}`, "positive: no text"},
		{`{"query":"q","positive":["a",""]}`, "text 2 is empty"},
		{`{"query":"","positive":"a"}`, "query"},
		{`{"query":"q","positive":"a","negative":7}`, "negative"},
		{`{"query":"q","positive":"a","margin":1}`, "margin"},
		{`{"sentence1":"a","sentence2":"","score":1}`, "sentence2"},
		{`{"sentence1":"a","sentence2":"b"}`, "score"},
		{`{"sentence1":"a","sentence2":"b","score":2}`, "score"},
		{`{"text":"","label":1}`, "text"},
		{`{"text":"a","label":null}`, "label"},
		{`{"text":"a","label":1.5}`, "label"},
		{`{"text":"a","label":{}}`, "label"},
		{`{"text":"a","label":[""]}`, "label"},
		{`{"query":"q","positive":"a"}` + "\n" + `{"text":"a"}`, "f:2"},
	} {
		_, err := data.ReadFrom(strings.NewReader(c.in), "f", data.Auto)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.ContainsAny(err.Error(), "\n\r") {
			t.Errorf("%s: %v, want one line with %q", c.in, err, c.want)
		}
	}
}

// All answers to a query are on one side.
func TestSplitComparedByQuery(t *testing.T) {
	var all []data.Comparison
	for i := range 300 {
		all = append(all, data.Comparison{Query: fmt.Sprint(i / 3), Documents: []string{fmt.Sprint(i)}})
	}
	learnt, held := data.SplitCompared(all, 0.2)
	if len(learnt)+len(held) != 300 || len(held) < 30 || len(held) > 90 {
		t.Fatalf("%d and %d", len(learnt), len(held))
	}
	of := map[string]bool{}
	for _, x := range held {
		of[x.Query] = true
	}
	for _, x := range learnt {
		if of[x.Query] {
			t.Errorf("query %s is on both sides", x.Query)
		}
	}
}
