package field

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

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
	for depth, want := range map[int]bool{64: true, 65: false} {
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

// A text that ends within a value is refused by whoever reads the value.
func TestCutValues(t *testing.T) {
	for _, body := range []string{`{"name":"a`, `{"name":tru`, `{"name":["a"`, `{"name":{"a":1`, `{"name"`, `{"name":`, `{"name":"\ud800"}`} {
		for what, to := range map[string]Target{"text": Text(new(string)), "texts": &Texts{}, "boolean": Boolean(new(bool)),
			"number": Float(new(float32), 0, 1), "object": Object{}} {
			err := Read([]byte(body), []Field{Required("name", to, "")})
			if err == nil || !strings.HasPrefix(strings.TrimPrefix(err.Error(), "name: "), "the body ") {
				t.Errorf("%s as %s: %v", body, what, err)
			}
		}
	}
}

// Values are said in words: the short ones as they are.
func TestDescribe(t *testing.T) {
	at40, at41 := strings.Repeat("a", 40), strings.Repeat("a", 39)+"é"
	for text, want := range map[string]string{
		`null`: "null", `{"a":1}`: "an object", `[1]`: "an array", `true`: "true", `-1.5e3`: "-1.5e3",
		`"a\u00e9"`: `the string "aé"`, `"` + at40 + `"`: `the string "` + at40 + `"`,
		`"` + at41 + `"`: `the string "` + at41[:39] + `..."`,
	} {
		if got := Describe(jsontext.Value(text)); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}

// An error says where it is, from the outside in, and keeps its status.
func TestErrorsSayWhere(t *testing.T) {
	if err := Within("a", nil); err != nil {
		t.Error(err)
	}
	own := &reply.Error{Status: 404, Message: "gone"}
	for _, tt := range []struct {
		err    error
		status int
		want   string
	}{
		{At("input", Within("item 2", errors.New("wrong"))), 400, "input: item 2: wrong"},
		{At("input", Within("item 2", own)), 404, "input: item 2: gone"},
	} {
		e := (*reply.Error)(nil)
		if !errors.As(tt.err, &e) || e.Status != tt.status || e.Message != tt.want || e.Param != "input" {
			t.Errorf("%+v, want %d %s", tt.err, tt.status, tt.want)
		}
	}
}

// Some members are looked at before the body is read: those before a fault, too.
func TestPeek(t *testing.T) {
	for body, want := range map[string]struct {
		a, b string
		ok   bool
	}{
		`{"a":"x","c":[1,{"a":2}],"b": {"a":3} }`: {`"x"`, `{"a":3}`, true},
		`{"a":"x","b":tru`:                        {`"x"`, "", false},
		`{"a":"x"`:                                {`"x"`, "", false},
		`["a"]`:                                   {"", "", false},
		``:                                        {"", "", false},
	} {
		got, err := Peek([]byte(body), "a", "b")
		if string(got["a"]) != want.a || string(got["b"]) != want.b || (err == nil) != want.ok || len(got) > 2 {
			t.Errorf("%s: %q, %v", body, got, err)
		}
	}
	for text, want := range map[string]string{`"x\n"`: "x\n", `5`: "", `null`: "", ``: ""} {
		if got := TextOf(jsontext.Value(text)); got != want {
			t.Errorf("the text of %s is %q", text, got)
		}
	}
	if got := string(Except(jsontext.Value(`{"a":1,"b\"":[2],"c":null}`), "a", "d")); got != `,"b\"":[2],"c":null}` {
		t.Errorf("without a: %s", got)
	}
}

// A type of Go is described as its JSON is.
func TestSchemas(t *testing.T) {
	type inner struct {
		Deep float32 `json:"deep"`
	}
	type outer struct {
		inner
		Name string           `json:"name"`
		Any  jsontext.Value   `json:"any,omitzero"`
		Map  map[string][]int `json:"map"`
		On   *bool            `json:"on"`
		More []outer          `json:"more,omitzero"`
		Less []string         `json:"less,omitzero"`
		Free any              `json:"free"`
	}
	got, err := json.Marshal(SchemaOf(outer{}))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"properties":{"any":{},"deep":{"type":"number"},"free":{},"less":{"items":{"type":"string"},"type":"array"},` +
		`"map":{"additionalProperties":{"items":{"type":"integer"},"type":"array"},"type":"object"},"more":{"type":"array"},` +
		`"name":{"type":"string"},"on":{"anyOf":[{"type":"boolean"},{"type":"null"}]}},` +
		`"required":["deep","free","map","name","on"],"type":"object"}`
	if string(got) != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	own := Schema{"const": 1}
	if got := SchemaOf(own); !reflect.DeepEqual(got, own) {
		t.Errorf("a schema is described as %v", got)
	}
}

// A value that is decoded as a whole says what of it has the wrong type, and elements have numbers from 0.
func TestDecode(t *testing.T) {
	var v struct {
		A []struct {
			N int `json:"n"`
		} `json:"a"`
	}
	if err := NewReader([]byte(` {"a":[{"n":1}]} `)).Decode(&v); err != nil || len(v.A) != 1 || v.A[0].N != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	if err := NewReader([]byte(`{"a":[{"n":1},{"n":"x"}]}`)).Decode(&v); err == nil || err.Error() != `string at "/a/1/n", want int` {
		t.Errorf("%v", err)
	}
	var at []int
	r := NewReader([]byte(`["a",{},3]`))
	if err := r.Elements("an array", func(i int) error {
		at = append(at, i)
		_, err := r.Raw()
		return err
	}); err != nil || !slices.Equal(at, []int{0, 1, 2}) {
		t.Errorf("%v, %v", at, err)
	}
	if r := NewReader([]byte(`{}`)); r.Elements("an array", nil).Error() != "an object, want an array" {
		t.Error("an object is taken for an array")
	}
}

// What a field takes is described as it is read.
func TestTargetsDescribeThemselves(t *testing.T) {
	for want, to := range map[string]Target{
		`{"type":"string"}`:                                    Text(new(string)),
		`{"enum":["a","b"],"type":"string"}`:                   OneOf(new(string), "a", "b"),
		`{"maximum":5,"minimum":-1,"type":"integer"}`:          Integer(new(int), -1, 5),
		`{"maximum":0.5,"minimum":0,"type":"number"}`:          Float(new(float32), 0, 0.5),
		`{"maximum":2147483647,"minimum":-1,"type":"integer"}`: Millis(new(time.Duration), -1),
		`{"type":"boolean"}`:                                   Boolean(new(bool)),
		`{"items":{"type":"string"},"type":"array"}`:           &Texts{},
		`{"type":"object"}`:                                    Object{},
	} {
		if got, err := json.Marshal(to.Schema()); err != nil || string(got) != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
	for want, s := range map[string]Schema{"words": {"description": "words", "type": "string"}, "a string": {"type": "string"}, "an array": {"type": "array"}} {
		if got := wants(s); got != want {
			t.Errorf("%v is %q, want %q", s, got, want)
		}
	}
	all := []Field{Setting("a b", Boolean(new(bool)), ""), Setting("c", Boolean(new(bool)), "")}
	if got := Without(slices.Clone(all), "c", "b"); len(got) != 1 || got[0].Names[0] != "a" {
		t.Errorf("%+v", got)
	}
	if err := ReadValue([]byte(`[1] x`), &Texts{}); err == nil || err.Error() != "the body: 1, want an array of strings" {
		t.Error(err)
	}
	if err := ReadValue([]byte(`["a"] x`), &Texts{}); err == nil {
		t.Error("more than a value is taken")
	}
}
