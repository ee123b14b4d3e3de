package grammar

import (
	"bytes"
	"encoding/json"
	"io"
	"math/big"
	"strings"
)

// distinct reports whether a text is an array of JSON in which no two elements are the same value.
func distinct(text string) bool {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
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
