package jsonschema

import "testing"

// SuiteSchemas returns the schemas of JSON-Schema-Test-Suite.
func SuiteSchemas(t testing.TB) [][]byte {
	var out [][]byte
	for _, c := range suite(t) {
		out = append(out, c.Schema)
	}
	return out
}
