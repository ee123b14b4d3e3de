package grammar

import (
	"bytes"
	"encoding/json"
	"io"
	"math/big"
	"strings"
)

// Brackets returns what is around the elements.
func (e Distinct) Brackets() [2]Lit {
	if e.Names {
		return [2]Lit{"{", "}"}
	}
	return [2]Lit{"[", "]"}
}

// distinct reports whether a text is an array of JSON in which no two elements are the same value, or an object of which
// no two members have the same name.
func distinct(text string, names bool) bool {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	if names {
		return differ(d)
	}
	var all []any
	if d.Decode(&all) != nil {
		return false
	}
	if _, err := d.Token(); err != io.EOF {
		return false
	}
	for i, x := range all {
		for _, y := range all[:i] {
			if sameJSON(x, y) {
				return false
			}
		}
	}
	return true
}

// differ reports whether a decoder has an object and nothing else, of which no two members have the same name.
func differ(d *json.Decoder) bool {
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	seen := map[json.Token]bool{}
	for d.More() {
		name, err := d.Token()
		var v json.RawMessage
		if err != nil || d.Decode(&v) != nil || seen[name] {
			return false
		}
		seen[name] = true
	}
	if _, err := d.Token(); err != nil {
		return false
	}
	_, err := d.Token()
	return err == io.EOF
}

func sameJSON(x, y any) bool {
	switch x := x.(type) {
	case json.Number:
		y, ok := y.(json.Number)
		return ok && (x == y || sameNumber(string(x), string(y)))
	case []any:
		y, ok := y.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !sameJSON(x[i], y[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		y, ok := y.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for name, v := range x {
			if w, ok := y[name]; !ok || !sameJSON(v, w) {
				return false
			}
		}
		return true
	}
	return x == y
}

func sameNumber(x, y string) bool {
	for _, s := range []string{x, y} { // an exponent is written out
		if _, exponent, _ := strings.Cut(strings.ToLower(s), "e"); len(exponent) > 4 {
			return false
		}
	}
	a, ok := new(big.Rat).SetString(x)
	b, ok2 := new(big.Rat).SetString(y)
	return ok && ok2 && a.Cmp(b) == 0
}
