package constrain

import (
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/grammar"
)

func TestForecast(t *testing.T) {
	v, pieces := vocabulary(true)
	v.Encode = func(text string) (ids []int32) { // pairs of bytes would be tokens
		for i := 0; i < len(text); i++ {
			ids = append(ids, 2+int32(text[i]))
		}
		return ids
	}
	g := &grammar.Grammar{}
	g.Add("text", grammar.Seq{grammar.Lit("name: "), grammar.NewClass(grammar.Range{Lo: 'a', Hi: 'z'}), grammar.Alt{grammar.Lit("!end."), grammar.Ref(1)}})
	g.Add("list", grammar.Seq{grammar.Lit("[x"), grammar.Repeat{Expr: grammar.Ref(1), Max: 1}, grammar.Lit("]")})
	a, err := v.Compile(g)
	if err != nil {
		t.Fatal(err)
	}
	c := a.New(true)
	for _, tt := range []struct{ text, want string }{
		{"", "name:"}, {"name: ", ""}, {"name: a", ""}, {"name: a!", "end."}, {"name: a[", ""}, {"name: a[x[x]", ""}, {"name: a!end.", ""},
	} {
		for _, b := range []byte(tt.text) {
			if !c.Accept(2 + int32(b)) {
				t.Fatalf("%q: %q is refused", tt.text, b)
			}
		}
		got := ""
		for _, id := range c.(Forecaster).Forecast(nil) {
			got += pieces[id]
		}
		if got != tt.want {
			t.Errorf("after %q comes %q, want %q", tt.text, got, tt.want)
		}
		c.Rollback(len(tt.text))
	}
	if got := c.(Forecaster).Forecast([]int32{1}); !slices.Equal(got[:1], []int32{1}) || len(got) != 6 {
		t.Errorf("appended: %v", got)
	}
	v.Encode = nil
	if got := c.(Forecaster).Forecast(nil); got != nil {
		t.Errorf("without a tokenizer: %v", got)
	}
}
