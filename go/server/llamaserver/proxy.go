package llamaserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// proxied is the prefix of the names of headers that are sent on, without it. No other is: they are for this server.
const proxied = "X-Llama-Server-Proxy-Header-"

// proxyTime is how long an answer of another server may take, with all its events.
const proxyTime = 10 * time.Minute

// kept are headers of answers that are not passed on: they are about the connection, or would have a browser treat the answer
// as this server's own. Nor is where a redirect leads: that may be this server again, and so anywhere by way of this proxy, where
// a page would follow with the headers and the body that it has sent.
var kept = strings.Fields("Connection Keep-Alive Proxy-Authenticate Proxy-Connection Te Trailer Transfer-Encoding Upgrade " +
	"Content-Length Set-Cookie Set-Cookie2 Clear-Site-Data Strict-Transport-Security Content-Security-Policy " +
	"Content-Security-Policy-Report-Only X-Content-Type-Options Service-Worker-Allowed Refresh Link " +
	"Location Alt-Svc Nel Report-To Reporting-Endpoints")

// proxyClient follows no redirects: a server that is asked does not choose what else is.
var proxyClient = &http.Client{
	Transport: &http.Transport{DisableCompression: true, MaxResponseHeaderBytes: 64 << 10, Proxy: http.ProxyFromEnvironment,
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: time.Minute},
	CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	},
}

// proxy sends a request on to another server, for pages whose browser would not: of MCP servers that know nothing of origins.
func (s *API) proxy(req *answer.Request) error {
	if !s.Proxy {
		return &reply.Error{Status: http.StatusForbidden, Message: "this server is no proxy; start it with --ui-mcp-proxy"}
	}
	if req.OfOtherSite() {
		return &reply.Error{Status: http.StatusForbidden,
			Message: "a page of another origin may not use the proxy, only the server's own page and programs may"}
	}
	to, err := url.Parse(req.HTTP.Query("url"))
	if err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Host == "" || to.User != nil {
		return reply.Invalid("url", "%s, want one that begins with http:// or https://, without a user", field.Quote(req.HTTP.Query("url")))
	}
	ctx, cancel := context.WithTimeout(req.Context(), proxyTime)
	defer cancel()
	in := req.HTTP.Request
	var body io.Reader
	if in.Method == http.MethodPost {
		body = in.Body
	}
	out, err := http.NewRequestWithContext(ctx, in.Method, to.String(), body)
	if err != nil {
		return reply.Invalid("url", "%s, which is none", field.Quote(req.HTTP.Query("url")))
	}
	if body != nil && in.ContentLength >= 0 {
		out.ContentLength = in.ContentLength
	}
	for name, values := range in.Header {
		if name, ok := strings.CutPrefix(name, proxied); ok && name != "" {
			out.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	answer, err := proxyClient.Do(out)
	if err != nil {
		if cause, ok := errors.AsType[*url.Error](err); ok {
			err = cause.Err
		}
		return &reply.Error{Status: http.StatusBadGateway, Message: field.Quote(to.Host) + " cannot be reached: " + err.Error()}
	}
	defer answer.Body.Close()
	h := req.HTTP.Writer.Header()
	for name, values := range answer.Header {
		if !slices.Contains(kept, name) && !strings.HasPrefix(name, "Access-Control-") {
			h[name] = values
		}
	}
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'") // a page of the other server is none of this one
	h.Set("X-Content-Type-Options", "nosniff")
	req.HTTP.Writer.WriteHeader(answer.StatusCode)
	req.HTTP.Writer.WriteHeaderNow()
	return relay(req.Context(), req.HTTP.Writer, answer.Body)
}

// relay passes on what comes as it comes. It panics where that breaks off, as net/http has a handler end a connection.
func relay(ctx context.Context, w http.ResponseWriter, from io.Reader) error {
	rc := http.NewResponseController(w)
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return reply.ErrGone
			}
			if err := rc.Flush(); err != nil {
				return reply.ErrGone
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case ctx.Err() != nil:
			return reply.ErrGone
		case err != nil: // that it broke off can only be said by breaking off as well
			panic(http.ErrAbortHandler)
		}
	}
}

// proxyRoutes are those of the proxy.
func (s *API) proxyRoutes() (routes []answer.Route) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		routes = append(routes, answer.Route{
			Method: method, Paths: []string{"/cors-proxy"}, Always: true, Admin: true, Handle: s.proxy,
			Summary: "Send a request on to another server, with the headers whose names begin with X-Llama-Server-Proxy-Header-",
			Params:  []answer.Param{{In: "query", Name: "url", Doc: "Where to.", Is: field.Schema{"type": "string"}}},
			Answer:  field.Schema{},
		})
	}
	return routes
}
