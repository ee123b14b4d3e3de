package guard

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	if bob.Account == ann.Account || bob.Called() != "corp:"+bob.Name {
		t.Errorf("%+v", bob)
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

// authorized returns the answer of a server with keys to a header.
func authorized(k *Keys, header, value string) *httptest.ResponseRecorder {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.Use(Auth(k, []string{"/public"}))
	shown := func(c *gin.Context) {
		key := KeyOf(c, k)
		c.String(200, key.Called())
	}
	e.GET("/x", shown)
	e.GET("/public", shown)
	r := httptest.NewRequest("GET", "/x", nil)
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
		w := authorized(k, test.header, test.value)
		if w.Code != test.status || w.Header().Get("WWW-Authenticate") != test.authenticate || !strings.Contains(w.Body.String(), test.body) {
			t.Errorf("%.40s: %d %q %s", test.value, w.Code, w.Header().Get("WWW-Authenticate"), w.Body)
		}
		if text := w.Body.String() + fmt.Sprint(w.Header()); strings.Contains(text, "eyJ") {
			t.Errorf("%s tells the token", text)
		}
	}
}
