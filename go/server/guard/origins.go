package guard

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/rs/cors"
)

// Origins are the sites whose pages may use the API. Non-browser clients send no
// origin, and the server's own pages are same-origin.
type Origins struct {
	all, local bool
	list       map[string]bool
}

// NewOrigins parses a list of origins such as https://example.com. "localhost" stands
// for all origins on this machine, "*" for all origins.
func NewOrigins(list []string) (*Origins, error) {
	o := &Origins{list: map[string]bool{}}
	for _, text := range list {
		switch text = strings.TrimSpace(text); text {
		case "":
		case "*":
			o.all = true
		case "localhost":
			o.local = true
		default:
			u, err := url.Parse(strings.TrimSuffix(text, "/"))
			if err != nil || u.Scheme == "" || u.Hostname() == "" || strings.Contains(u.Host, "*") || *u != (url.URL{Scheme: u.Scheme, Host: u.Host}) {
				return nil, fmt.Errorf("%q is no origin, want one such as https://example.com, localhost for the pages of this machine, or * for all", text)
			}
			o.list[origin(u)] = true
		}
	}
	return o, nil
}

// origin normalizes a URL's origin as browsers do: in lower case, without a default
// port.
func origin(u *url.URL) string {
	host := strings.ToLower(u.Host)
	switch {
	case u.Scheme == "http" && u.Port() == "80", u.Scheme == "https" && u.Port() == "443":
		host = strings.TrimSuffix(host, ":"+u.Port())
	}
	return u.Scheme + "://" + host
}

// allowed reports whether pages of an origin may use the API.
func (o *Origins) allowed(origin string) bool {
	if o.all || o.list[origin] {
		return true
	}
	u, err := url.Parse(origin)
	return o.local && err == nil && localName(u.Hostname())
}

// localName reports whether a host name always means this machine.
func localName(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback()
}

// exposed are headers of answers that pages of other origins may read.
var exposed = []string{"X-Request-Id", "X-Completion-Id", "Retry-After",
	"X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests",
	"X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens",
	"Anthropic-Ratelimit-Requests-Limit", "Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset",
	"Anthropic-Ratelimit-Tokens-Limit", "Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset",
	"Anthropic-Ratelimit-Input-Tokens-Limit", "Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Reset",
	"Anthropic-Ratelimit-Output-Tokens-Limit", "Anthropic-Ratelimit-Output-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Reset"}

// CrossOrigin allows requests from pages of the allowed origins, answers preflight
// requests, and refuses requests from other origins: browsers send simple requests
// without a preflight, and withhold only the response from the page.
func CrossOrigin(o *Origins) gin.HandlerFunc {
	options := cors.Options{
		AllowOriginFunc: o.allowed,
		AllowedMethods:  []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete},
		AllowedHeaders:  []string{"*"}, // those requested: clients send many of their own
		ExposedHeaders:  exposed,
		MaxAge:          600,

		AllowPrivateNetwork: true,
	}
	if o.all {
		options.AllowOriginFunc, options.AllowedOrigins = nil, []string{"*"}
	}
	headers := cors.New(options)
	protection := http.NewCrossOriginProtection()
	return func(c *gin.Context) {
		headers.HandlerFunc(c.Writer, c.Request)
		if c.Request.Method == http.MethodOptions {
			if asked := c.GetHeader("Origin"); o.all && asked != "" { // as llama-server does
				c.Header("Access-Control-Allow-Origin", asked)
				c.Header("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS")
			}
			c.AbortWithStatus(http.StatusOK) // as llama-server does: its clients ask for no other
			return
		}
		from := c.GetHeader("Origin")
		if o.all || from != "" && o.allowed(from) || protection.Check(c.Request) == nil {
			return
		}
		if from == "" || from == "null" {
			from = "another site"
		}
		refuse(c, http.StatusForbidden, "permission_error", fmt.Sprintf("a page of %.100s may not use this server; the server's flag --cors-origins says whose pages may", from))
	}
}

// Hosts refuses requests whose Host is not among names; "*" allows all. This stops DNS rebinding: a hostile name that
// resolves to the server would be same-origin. Requests for which local is true come from this machine, whose own names
// are allowed too. Requests for which open is true come from a network without a key: names that nobody else can own
// are allowed too, that is, addresses and names outside of public DNS. Requests for which neither is true pass.
func Hosts(names []string, local, open func(*http.Request) bool) gin.HandlerFunc {
	known := map[string]bool{}
	if own, err := os.Hostname(); err == nil {
		known[hostname(own)] = true
	}
	for _, name := range names {
		known[hostname(strings.TrimSpace(name))] = true
	}
	return func(c *gin.Context) {
		name := hostname(c.Request.Host)
		if name == "" || known["*"] || known[name] || localName(name) {
			return
		}
		if !local(c.Request) && (!open(c.Request) || privateName(name)) {
			return
		}
		refuse(c, http.StatusForbidden, "permission_error", fmt.Sprintf("this server is not known as %.100q; the server's flag --allowed-hosts takes further names", name))
	}
}

// privateSuffixes are suffixes of names that public DNS does not have.
var privateSuffixes = []string{".local", ".internal", ".lan", ".localdomain", ".home.arpa", ".svc"}

// privateName reports whether a host name is an address or a name that nobody can register: one label, as of a
// container or a machine in the same network, or a name with a suffix for private use.
func privateName(name string) bool {
	return net.ParseIP(name) != nil || !strings.ContainsAny(name, ".:") ||
		slices.ContainsFunc(privateSuffixes, func(suffix string) bool { return strings.HasSuffix(name, suffix) })
}

// Headers sets the headers of all answers: browsers do not guess their type, and they are not cached.
func Headers() gin.HandlerFunc {
	return func(c *gin.Context) {
		c.Header("X-Content-Type-Options", "nosniff")
		c.Header("Cache-Control", "no-store")
	}
}

// Unprefixed removes a header with which a client could choose the target of the router's redirects.
func Unprefixed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("X-Forwarded-Prefix")
		next.ServeHTTP(w, r)
	})
}

// hostname is the name in a Host header, in lower case and without the port.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(strings.TrimSuffix(host, "."), "[]"))
}
