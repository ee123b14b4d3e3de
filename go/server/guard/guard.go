package guard

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/server/oidc"
)

// Keys of the request's context that the middleware sets.
const (
	RequestID = "request-id" // string
	Client    = "client"     // string: who sent the request, for fair shares and the log
	OfKey     = "key"        // Key: the key of the request, if keys are required
	Refusal   = "refusal"    // string: why the request was refused, for the log
	MostBody  = "most-body"  // int64: the maximum size of its body in bytes
)

// refuse ends a request with llama-server's error object, and the type beside it that Anthropic's clients expect.
// Ollama's clients get a text. For a missing or wrong key it has OpenAI's code.
func refuse(c *gin.Context, status int, kind, message string) {
	c.Set(Refusal, message)
	if Ollama(c.Request) {
		c.AbortWithStatusJSON(status, gin.H{"error": message})
		return
	}
	code := any(status)
	if status == http.StatusUnauthorized {
		code = "invalid_api_key"
	}
	c.AbortWithStatusJSON(status, gin.H{"type": "error", "error": gin.H{"code": code, "message": message, "type": kind}})
}

// Ollama reports whether a request is to a path of Ollama's API.
func Ollama(r *http.Request) bool { return strings.Contains(r.URL.Path, "/api/") }

// Identify gives each request an id, or keeps the one that a proxy set, and returns it
// in the response header.
func Identify() gin.HandlerFunc {
	return func(c *gin.Context) {
		id := c.GetHeader("X-Request-Id")
		if !plain(id) {
			var b [8]byte
			rand.Read(b[:]) // never fails
			id = hex.EncodeToString(b[:])
		}
		c.Set(RequestID, id)
		c.Header("X-Request-Id", id)
		c.Next()
	}
}

// plain reports whether an id from a client is safe to log.
func plain(id string) bool {
	if len(id) == 0 || len(id) > 64 {
		return false
	}
	return !strings.ContainsFunc(id, func(r rune) bool {
		return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '-' || r == '_' || r == '.')
	})
}

// Recover turns a panic of a handler into a 500 with the request's id, and logs the
// details. A response that has begun is aborted.
func Recover(log zerolog.Logger) gin.HandlerFunc {
	return func(c *gin.Context) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler {
				panic(p) // the panic by which net/http aborts a response
			}
			id := c.GetString(RequestID)
			log.Error().Str("request", id).Interface("panic", p).Bytes("stack", debug.Stack()).Msg("a handler panicked")
			if c.Writer.Written() {
				panic(http.ErrAbortHandler)
			}
			refuse(c, http.StatusInternalServerError, "server_error",
				fmt.Sprintf("internal error, the log has more under request %s", id))
		}()
		c.Next()
	}
}

// Auth requires a key or a token, if there are keys or issuers, for all requests except those that read public paths. It
// identifies the client by its key, or else by its address. Public paths wait for no issuer: a token that cannot be verified
// at once is as none there.
func Auth(keys *Keys, public []string) gin.HandlerFunc {
	return func(c *gin.Context) {
		if keys.Open() {
			c.Set(Client, address(c.Request.RemoteAddr))
			return
		}
		reads := c.Request.Method == http.MethodGet || c.Request.Method == http.MethodHead
		anybody := reads && slices.Contains(public, c.Request.URL.Path)
		text := presented(c.Request)
		key, ok := keys.Check(text)
		var wrong *oidc.Error
		if !ok {
			ctx := c.Request.Context()
			if anybody {
				ctx = ended
			}
			key, wrong = keys.token(ctx, text)
			ok = wrong == nil
		}
		if !ok && !anybody {
			refuseKey(c, wrong)
			return
		}
		c.Set(Client, key.Called())
		c.Set(OfKey, key)
	}
}

// ended is the context of what waits for nothing.
var ended = func() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}()

// refuseKey ends a request whose key or token is not accepted, with the header of RFC 6750.
func refuseKey(c *gin.Context, e *oidc.Error) {
	if e == errNoToken {
		c.Header("WWW-Authenticate", `Bearer realm="quern"`)
		refuse(c, http.StatusUnauthorized, "authentication_error", e.Reason)
		return
	}
	says := func(code string) {
		c.Header("WWW-Authenticate", fmt.Sprintf(`Bearer realm="quern", error="%s", error_description="%s"`, code, e.Reason))
	}
	switch e.Kind {
	case oidc.Unavailable:
		c.Header("Retry-After", "10")
		refuse(c, http.StatusServiceUnavailable, "unavailable_error", e.Reason)
	case oidc.Forbidden:
		says("insufficient_scope")
		refuse(c, http.StatusForbidden, "permission_error", e.Reason)
	default:
		says("invalid_token")
		refuse(c, http.StatusUnauthorized, "authentication_error", "invalid token: "+e.Reason)
	}
}

// KeyOf returns the key of a request. Without keys, every client is an admin.
func KeyOf(c *gin.Context, keys *Keys) Key {
	if keys.Open() {
		return Key{Name: c.GetString(Client), Admin: true, Priority: maxPriority}
	}
	key, _ := c.Value(OfKey).(Key)
	return key
}

func presented(r *http.Request) string {
	if scheme, key, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(key)
	}
	return r.Header.Get("X-Api-Key")
}

// ClientOf names the client of a request, also of one that was refused before its key was checked.
func ClientOf(c *gin.Context) string {
	if name := c.GetString(Client); name != "" {
		return name
	}
	return address(c.Request.RemoteAddr)
}

// Address is the address of a request's client, without its port.
func Address(r *http.Request) string { return address(r.RemoteAddr) }

// address is a client's address without its port; all clients of a unix socket share one.
func address(remote string) string {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		return host
	}
	return "local"
}

// Body refuses bodies of more than `most` bytes: at once if Content-Length says so, else while reading. Routes may have
// other limits, by their full paths.
func Body(most int64, others map[string]int64) gin.HandlerFunc {
	return func(c *gin.Context) {
		n := most
		if other, ok := others[c.FullPath()]; ok {
			n = other
		}
		c.Set(MostBody, n)
		if c.Request.ContentLength > n {
			refuse(c, http.StatusRequestEntityTooLarge, "invalid_request_error",
				fmt.Sprintf("the body has %d bytes, want at most %d", c.Request.ContentLength, n))
			return
		}
		c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, n)
	}
}
