package server_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
)

// Somebody has judged for each route of each API which role may use it, in testdata/roles.txt. A new route without a
// judgement fails here, and so does one that treats a role otherwise.
func TestRolesOfRoutes(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("testdata/roles.txt")
	if err != nil {
		t.Fatal(err)
	}
	judged := map[string]string{}
	for line := range strings.Lines(string(table)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		role, route, ok := strings.Cut(line, " ")
		if !ok || role != "admin" && role != "user" || judged[route] != "" {
			t.Fatalf("%q, want admin or user and a route, once", line)
		}
		judged[route] = role
	}
	found := map[string]bool{}
	s := newWholeSiteOf(t, callerOfHeader)
	for _, r := range s.Server.Handler().(*gin.Engine).Routes() {
		route := r.Method + " " + r.Path
		if r.Method == "HEAD" {
			route = "GET " + r.Path
		}
		role := judged[route]
		if role == "" {
			t.Errorf("%s is new: say in testdata/roles.txt which role may use it", route)
			continue
		}
		found[route] = true
		// Of an action on what is somebody else's or is not there, a user learns nothing; the role is refused before.
		path := strings.NewReplacer(":id", "0", "*id", "demo").Replace(r.Path)
		status, body := said(t, as(t, s, "ann", r.Method, path, "{}"))
		if refused := status == 403; refused != (role == "admin") || refused && r.Method != "HEAD" && !strings.Contains(body, "role") {
			t.Errorf("%s is for the role %s, but a user has %d %.200s", route, role, status, body)
		}
		if status, body := said(t, as(t, s, "root", r.Method, path, "{}")); status == 403 {
			t.Errorf("%s: an administrator has %d %.200s", route, status, body)
		}
	}
	for _, route := range slices.Sorted(maps.Keys(judged)) {
		if !found[route] {
			t.Errorf("testdata/roles.txt has %s, which is no route", route)
		}
	}
}
