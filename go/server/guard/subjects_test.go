package guard

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/server/oidc"
	"github.com/quern-llm/quern/go/server/oidc/oidctest"
	"github.com/quern-llm/quern/go/server/quota"
)

// trusting returns keys of a list beside an issuer, with members besides in its entry.
func trusting(t *testing.T, i *oidctest.Issuer, besides string, list ...string) *Keys {
	t.Helper()
	path := filepath.Join(t.TempDir(), "oidc.json")
	text := fmt.Sprintf(`{"issuers":[{"issuer":%q,"name":"corp","audiences":["quern"]%s}]}`, i.URL, besides)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := oidc.ReadConfig(path, CheckGrant)
	if err != nil {
		t.Fatal(err)
	}
	v, err := oidc.Open(t.Context(), c, func(string, string, error) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	k, err := NewKeys(list)
	if err != nil {
		t.Fatal(err)
	}
	k.Trust(v)
	return k
}

// subjectOf returns the key that a token stands for.
func subjectOf(t *testing.T, k *Keys, token string) Key {
	t.Helper()
	key, wrong := k.token(t.Context(), token)
	if wrong != nil {
		t.Fatal(wrong)
	}
	return key
}

// A subject is a key with the rights of its last token, counted as one.
func TestSubjects(t *testing.T) {
	i := oidctest.New(t)
	k := trusting(t, i, `,"claims":{"rpm":"rpm","tenant":"org","role":"role","weight":"w","priority":"p"}`)
	if k.Open() || !k.Several() || len(k.All()) != 0 {
		t.Error("nobody has come, and somebody may")
	}
	ann := subjectOf(t, k, i.Token(map[string]any{"rpm": 5, "org": "acme"}))
	if ann.Admin || ann.Priority != 0 || ann.Weight != 1 || ann.Called() != "corp:ann" || ann.Tenant != "acme" || len(ann.Name) != 32 || ann.Account.Limits().Minute.Requests != 5 {
		t.Errorf("%+v, limits %+v", ann, ann.Account.Limits())
	}
	more := subjectOf(t, k, i.Token(map[string]any{"role": "admin", "w": 2.5, "rpm": 6}))
	if !more.Admin || more.Priority != maxPriority || more.Weight != 2.5 || more.Account != ann.Account || more.Account.Limits().Minute.Requests != 6 || more.Name != ann.Name {
		t.Errorf("%+v, limits %+v", more, more.Account.Limits())
	}
	if p := subjectOf(t, k, i.Token(map[string]any{"p": -7})); p.Priority != -7 || p.Admin {
		t.Errorf("%+v", p)
	}
	bob := subjectOf(t, k, i.Token(map[string]any{"sub": "böb"}))
	if bob.Account == ann.Account || bob.Called() != "corp:#"+bob.Name {
		t.Errorf("%+v", bob)
	}
	if mallory := subjectLabel(&oidc.Subject{Issuer: "corp", ID: "#" + bob.Name}, "0a"); mallory != "corp:#0a" {
		t.Errorf("who is called as bob's hash is shown as %q", mallory)
	}
	if found, ok := k.Named(bob.Name); !ok || found.Account != bob.Account || len(k.All()) != 2 {
		t.Errorf("%+v, %v", found, ok)
	}
	for name, wrong := range map[string]any{"rpm": 0, "w": -1, "p": 1e6} {
		if _, err := k.token(t.Context(), i.Token(map[string]any{name: wrong})); err != errWords {
			t.Errorf("%s %v: %v", name, wrong, err)
		}
	}
}

// Who comes with ever new names has neither memory nor counters without end, and counters never become less.
func TestSubjectsAreBounded(t *testing.T) {
	s := newSubjects(nil, 3)
	come := func(name, tenant string) Key {
		t.Helper()
		key, err := s.admit(&oidc.Subject{Issuer: "corp", ID: name, Tenant: tenant, Words: []string{"rpd=5", "user"}})
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	busy := come("busy", "one")
	run, err := busy.Account.Begin("m", false)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(key Key) {
		t.Helper()
		r, err := key.Account.Begin("m", false)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Input(10, true); err != nil {
			t.Fatal(err)
		}
		r.Output(2)
		r.End(false)
	}
	for n := range 3 * maxTenants {
		ask(come(fmt.Sprint("s", n), fmt.Sprint("t", n)))
	}
	if got, ok := s.named(busy.Name); !ok || got.Account != busy.Account || s.order.Len() != 3 || len(s.ids) != 3 {
		t.Errorf("%v, %d subjects", ok, s.order.Len())
	}
	run.End(false)
	var all quota.Count
	for _, k := range s.totals() {
		sum := k.Account.Usage().Sum(quota.Since)
		all.Requests += sum.Requests
		all.Output += sum.Output
		if k.Label == quota.Others && sum.Requests != 2*maxTenants+1 {
			t.Errorf("others have %+v", sum)
		}
	}
	if want := int64(3 * maxTenants); len(s.totals()) != maxTenants+1 || all.Requests != want+1 || all.Output != 2*want {
		t.Errorf("%d tenants, %+v", len(s.totals()), all)
	}
	again := come("s0", "t0")
	for range 5 {
		ask(again)
	}
	if _, err := again.Account.Begin("m", false); err == nil {
		t.Error("a sixth request of five a day")
	}
	for _, k := range s.totals() {
		if k.Label == "corp:t0" && k.Account.Usage().Refused != 1 {
			t.Errorf("%+v", k.Account.Usage())
		}
	}
}

// Many come while their issuer changes its keys: each with the rights of the token that it gives, though the subject has
// others.
func TestSubjectsConcurrently(t *testing.T) {
	i := oidctest.New(t)
	path := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(path, i.Set(), 0o600); err != nil {
		t.Fatal(err)
	}
	made := func() (all []string) {
		for _, model := range []string{"a", "b", ""} {
			claims := map[string]any{"exp": 4e9, "rpm": 7}
			if model != "" {
				claims["m"] = model
			}
			all = append(all, i.Token(claims))
		}
		return all
	}
	old := made()
	i.Rotate("EdDSA")
	set, fresh := i.Set(), made()
	synctest.Test(t, func(t *testing.T) {
		k := trusting(t, i, fmt.Sprintf(`,"jwks":%q,"claims":{"models":"m","rpm":"rpm"}`, path))
		ann := subjectOf(t, k, old[0]).Account
		if err := os.WriteFile(path, set, 0o600); err != nil {
			t.Fatal(err)
		}
		var wait sync.WaitGroup
		for n := range 12 {
			tokens, model := old, n%3
			if n%2 > 0 {
				tokens = fresh
			}
			wait.Go(func() {
				for range 30 {
					time.Sleep(time.Minute)
					key, wrong := k.token(t.Context(), tokens[model])
					if wrong != nil {
						continue
					}
					if want := [][]string{{"a"}, {"b"}, nil}[model]; !slices.Equal(key.Models, want) || key.Account != ann {
						t.Errorf("may ask %q, want %q", key.Models, want)
					}
				}
			})
		}
		wait.Go(func() {
			for range 30 {
				time.Sleep(time.Minute)
				k.All()
				k.Totals()
			}
		})
		wait.Wait()
		for model := range old {
			if _, wrong := k.token(t.Context(), old[model]); wrong == nil {
				t.Error("a token of a key that was withdrawn is accepted")
			}
			subjectOf(t, k, fresh[model])
		}
	})
}

// What is public waits for no issuer: who gives a token that cannot be verified at once is as anybody.
func TestPublicWaitsForNothing(t *testing.T) {
	i := oidctest.New(t)
	path := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(path, i.Set(), 0o600); err != nil {
		t.Fatal(err)
	}
	token := "Bearer " + i.Token(map[string]any{"exp": 4e9})
	synctest.Test(t, func(t *testing.T) {
		k := trusting(t, i, fmt.Sprintf(`,"jwks":%q`, path))
		for _, test := range []struct {
			later      time.Duration
			path, want string
		}{
			{0, "/public", "corp:ann"},
			{time.Hour, "/public", ""},
			{0, "/public", "corp:ann"}, // they have come meanwhile
			{time.Hour, "/x", "corp:ann"},
		} {
			time.Sleep(test.later)
			if w := authorized(k, test.path, "Authorization", token); w.Code != 200 || w.Body.String() != test.want {
				t.Errorf("%s, %v later: %d %q, want %q", test.path, test.later, w.Code, w.Body, test.want)
			}
			synctest.Wait()
		}
	})
}

// authorized returns the answer of a server with keys to a header.
func authorized(k *Keys, path, header, value string) *httptest.ResponseRecorder {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.Use(Auth(k, []string{"/public"}))
	shown := func(c *gin.Context) {
		key := KeyOf(c, k)
		c.String(200, key.Called())
	}
	e.GET("/x", shown)
	e.GET("/public", shown)
	r := httptest.NewRequest("GET", path, nil)
	if header != "" {
		r.Header.Set(header, value)
	}
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	return w
}

// Keys and tokens live beside each other, and what is neither is told so as RFC 6750 has it.
func TestAuthOfTokens(t *testing.T) {
	i := oidctest.New(t)
	const dotted = "a.key.with-dots"
	k := trusting(t, i, `,"grants":[{"claim":"g","has":"in"}]`, secret, dotted)
	token := i.Token(map[string]any{"g": "in"})
	expired := i.Token(map[string]any{"g": "in", "exp": 1})
	for _, test := range []struct {
		header, value string
		status        int
		authenticate  string
		body          string
	}{
		{"Authorization", "Bearer " + token, 200, "", "corp:ann"},
		{"X-Api-Key", token, 200, "", "corp:ann"},
		{"Authorization", "bearer " + secret, 200, "", ""},
		{"Authorization", "Bearer " + dotted, 200, "", ""},
		{"", "", 401, `Bearer realm="quern"`, "invalid API key"},
		{"Authorization", "Bearer wrong", 401, `Bearer realm="quern"`, "invalid API key"},
		{"Authorization", "Basic " + token, 401, `Bearer realm="quern"`, "invalid API key"},
		{"Authorization", "Bearer " + expired, 401, `Bearer realm="quern", error="invalid_token", error_description="the token has expired"`, `"code":"invalid_api_key"`},
		{"Authorization", "Bearer " + i.Token(nil), 403, `Bearer realm="quern", error="insufficient_scope", error_description="the token grants nothing on this server"`, "permission_error"},
		{"Authorization", "Bearer a.b.c", 401, `Bearer realm="quern", error="invalid_token", error_description="it is no signed token of at most 16 KiB"`, "invalid token"},
	} {
		w := authorized(k, "/x", test.header, test.value)
		if w.Code != test.status || w.Header().Get("WWW-Authenticate") != test.authenticate || !strings.Contains(w.Body.String(), test.body) {
			t.Errorf("%.40s: %d %q %s", test.value, w.Code, w.Header().Get("WWW-Authenticate"), w.Body)
		}
		if text := w.Body.String() + fmt.Sprint(w.Header()); strings.Contains(text, "eyJ") {
			t.Errorf("%s tells the token", text)
		}
	}
}
