package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// What others have and this server does not is answered with why.
func TestAbsent(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	for _, a := range server.Absent() {
		for _, path := range a.Paths {
			for _, method := range a.Methods {
				status, b, _ := s.Do(method, path, "{}")
				if strings.HasPrefix(path, "/api/") { // whose errors are texts
					if text := fake.Parse[struct{ Error string }](t, b).Error; status != http.StatusNotImplemented || text != a.Why {
						t.Errorf("%s %s: %d %s", method, path, status, b)
					}
					continue
				}
				if e := fake.ErrorOf(t, b); status != http.StatusNotImplemented || e.Type != "not_supported_error" ||
					e.Message != a.Why {
					t.Errorf("%s %s: %d %s", method, path, status, b)
				}
			}
		}
	}
}
