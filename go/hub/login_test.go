package hub

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// A login goes to the registry that it is for and to its domain, whatever realm the registry names.
func TestLoginStaysAtHome(t *testing.T) {
	for _, c := range []struct {
		registry, realm string
		want            bool
	}{
		{"registry-1.docker.io", "auth.docker.io", true}, {"registry.gitlab.com", "gitlab.com", true}, {"ghcr.io", "ghcr.io", true},
		{"127.0.0.1:5000", "127.0.0.1:5001", true}, {"REGISTRY.example.com.", "login.example.com:443", true},
		{"ghcr.io", "evil.example", false}, {"registry.example.co.uk", "evil.co.uk", false}, {"mine.github.io", "evil.github.io", false},
		{"10.0.0.1", "10.0.0.2", false}, {"registry", "evil", false}, {"docker.io", "docker.io.evil.example", false},
	} {
		if got := related(c.registry, c.realm); got != c.want {
			t.Errorf("%s and %s: %v", c.registry, c.realm, got)
		}
	}
	reached := 0
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	defer s.Close()
	foreign := http.Client{Transport: loginGuard{"registry.example.com", http.DefaultTransport}}
	own := http.Client{Transport: loginGuard{strings.TrimPrefix(s.URL, "http://"), http.DefaultTransport}}
	with := func(client http.Client) error {
		req, err := http.NewRequest("GET", s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth("me", "secret")
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	if err := with(foreign); err == nil || !strings.Contains(err.Error(), "not of the same domain") || reached != 0 {
		t.Errorf("a login to a foreign realm: %v, %d requests", err, reached)
	}
	if _, err := foreign.PostForm(s.URL, url.Values{"password": {"secret"}}); err == nil || reached != 0 {
		t.Errorf("a password to a foreign realm: %v, %d requests", err, reached)
	}
	if resp, err := foreign.Get(s.URL); err != nil || reached != 1 { // files may be anywhere
		t.Errorf("without a login: %v", err)
	} else {
		resp.Body.Close()
	}
	if err := with(own); err != nil || reached != 2 {
		t.Errorf("to the registry itself: %v", err)
	}
}
