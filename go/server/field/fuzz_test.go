package field

import (
	"encoding/json"
	"strings"
	"testing"
)

// The walk of a body finds the names and values that a JSON decoder finds, or
// refuses it: whatever is no object, is no JSON, nests too deep, or has a name twice.
func FuzzWalk(f *testing.F) {
	for _, seed := range []string{`{"a":1,"b":[{"c":"d"}],"e":null}`, `{ "a" : [ 1 , -2.5e3 ] , "\u0061" : true }`, `{"a":{"a":{}}}x`, `[1]`, `{"a":1,"a":2}`, strings.Repeat("[", 70)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		r := NewReader([]byte(body))
		got := map[string]string{}
		err := r.Members("an object", func(name string) error {
			v, err := r.Raw()
			got[name] = string(v)
			return err
		})
		if err == nil {
			err = r.End()
		}
		var want map[string]json.RawMessage
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n") && !strings.ContainsAny(body, "\n\\") {
				t.Fatalf("%q: the error %q", body, err)
			}
			return
		}
		if err := json.Unmarshal([]byte(body), &want); err != nil || len(want) != len(got) {
			t.Fatalf("%q: got %v, %v, want %v", body, got, err, want)
		}
		for name, v := range want {
			if got[name] != string(v) {
				t.Fatalf("%q: %q is %q, want %q", body, name, got[name], v)
			}
		}
	})
}
