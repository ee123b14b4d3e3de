package field

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/server/reply"
)

type asked struct {
	name, mode string
	on         bool
	n          int
	x          float32
	wait       time.Duration
	list       Texts
}

func (a *asked) Fields() []Field {
	return []Field{
		Required("name", Text(&a.name), "A name."),
		Setting("mode", OneOf(&a.mode, "fast", "slow"), "How."),
		Setting("on", Boolean(&a.on), "Whether."),
		Setting("n count", Integer(&a.n, 0, 10), "How many."),
		Setting("x", Float(&a.x, -1, 1), "How much."),
		Setting("wait_ms", Millis(&a.wait, 0), "How long."),
		Input("list", &a.list, "Which."),
	}
}

// A body is taken into its fields, or the field at fault is named.
func TestRead(t *testing.T) {
	usual := asked{mode: "fast", n: 3}
	with := func(change func(*asked)) *asked {
		a := usual
		a.name = "x"
		change(&a)
		return &a
	}
	for _, tt := range []struct {
		body string
		want *asked // nil: it is refused
		err  string
		at   string
	}{
		{body: `{"name":"x"}`, want: with(func(*asked) {})},
		{body: ` {"name":"x","mode":"slow","on":true,"count":10,"x":0.5,"wait_ms":20,"list":["a","b"],"other":{"a":[1]}} `, want: with(func(a *asked) {
			a.mode, a.on, a.n, a.x, a.wait, a.list = "slow", true, 10, 0.5, 20*time.Millisecond, Texts{"a", "b"}
		})},
		{body: `{"name":"x","n":7.0,"count":7.0,"mode":null}`, want: with(func(a *asked) { a.n = 7 })},
		{body: `{}`, err: "name: missing, want a string", at: "name"},
		{body: `{"name":1}`, err: "name: 1, want a string", at: "name"},
		{body: `{"name":"x","mode":"best"}`, err: `mode: the string "best", want one of fast, slow`, at: "mode"},
		{body: `{"name":"x","n":11}`, err: "n: 11, want an integer from 0 to 10", at: "n"},
		{body: `{"name":"x","n":0.5}`, err: "n: 0.5, want an integer from 0 to 10", at: "n"},
		{body: `{"name":"x","x":-1.5}`, err: "x: -1.5, want a number from -1 to 1", at: "x"},
		{body: `{"name":"x","on":"true"}`, err: `on: the string "true", want true or false`, at: "on"},
		{body: `{"name":"x","list":["a",[]]}`, err: "list: an array, want an array of strings", at: "list"},
		{body: `{"name":"x","n":1,"count":2}`, err: "count: differs from n, which means the same; want one of them", at: "count"},
		{body: `{"name":"x","name":"x"}`, err: `"name": given twice`, at: "name"},
		{body: ``, err: "the body is empty, want a JSON object"},
		{body: `[]`, err: "the body is an array, want an object"},
		{body: `{"name":"x"`, err: "the body ends in the middle of its JSON"},
		{body: `{"name":"x"}{}`, err: "the body goes on after its JSON ends, at byte 13"},
	} {
		got := usual
		err := Read([]byte(tt.body), got.Fields())
		if tt.want != nil {
			if err != nil || !reflect.DeepEqual(&got, tt.want) {
				t.Errorf("%s: %+v, %v, want %+v", tt.body, got, err, tt.want)
			}
			continue
		}
		e := (*reply.Error)(nil)
		if !errors.As(err, &e) || e.Status != 400 || e.Message != tt.err || e.Param != tt.at {
			t.Errorf("%s: %+v, want %q", tt.body, err, tt.err)
		}
	}
	if err := ReadSome([]byte(`{}`), new(asked).Fields()); err != nil {
		t.Errorf("without what is required: %v", err)
	}
}

// A body nests to a depth and no deeper, whoever reads what is within.
func TestDepth(t *testing.T) {
	for depth, want := range map[int]bool{maxDepth: true, maxDepth + 1: false} {
		body := slices.Concat([]byte(`{"a":`), slices.Repeat([]byte("["), depth-1), slices.Repeat([]byte("]"), depth-1), []byte("}"))
		if err := ReadSome(body, nil); (err == nil) != want {
			t.Errorf("%d levels: %v", depth, err)
		}
	}
}

// Bounds are said as integers, and numbers beyond what floats have are refused.
func TestBounds(t *testing.T) {
	var n int64
	big := Integer(&n, math.MinInt64, math.MaxInt64)
	for text, want := range map[string]bool{"9223372036854775807": true, "-9223372036854775808": true, "9007199254740992.0": true, "9007199254740994.0": false, "1e300": false} {
		r := NewReader([]byte(text))
		if err := big.Take(r); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	if got := big.(numeric[int64]).want(); got != "an integer from -9223372036854775808 to 9223372036854775807" {
		t.Error(got)
	}
}
