// Package fetch gets the files that requests name by URLs: pictures, sounds and documents of other servers, and files of this one. Nothing
// is got that was not allowed: a request must not reach what only the server can.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Limits of a file that is fetched.
const (
	MaxBytes     = 20 << 20
	MaxURL       = 8 << 10 // bytes
	maxTime      = 10 * time.Second
	maxRedirects = 3
)

// A Fetcher gets files. It is safe for concurrent use.
type Fetcher struct {
	off    bool
	hosts  []string // that may be asked; nil: all with public addresses
	client *http.Client
	dir    string // of root
	root   *os.Root
}

// isHost reports whether a text is a host as URLs have it: a name or an address, with a port or without.
func isHost(text string) bool {
	host, port, err := net.SplitHostPort(text)
	if err != nil { // without a port
		host, port = text, "1"
		if inner, ok := strings.CutPrefix(text, "["); ok && strings.HasSuffix(inner, "]") {
			host = inner[:len(inner)-1]
		}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || host == "" || strings.ContainsAny(host, "/ @?#*[]") {
		return false
	}
	_, err = netip.ParseAddr(host)
	return err == nil || !strings.Contains(host, ":")
}

// New returns a Fetcher. from is what --media-url has: off, public, or a list of hosts, with ports or without, which may have
// any address. dir, unless it is empty, is the folder of files.
func New(from, dir string) (*Fetcher, error) {
	f := &Fetcher{}
	switch from {
	case "", "off":
		f.off = true
	case "public":
	default:
		for host := range strings.SplitSeq(from, ",") {
			host = strings.ToLower(strings.TrimSpace(host))
			if !isHost(host) {
				return nil, fmt.Errorf("%q is no host; want off, public, or hosts such as images.example.com,10.0.0.7:8080", host)
			}
			f.hosts = append(f.hosts, host)
		}
	}
	if dir != "" {
		var err error
		if f.dir, err = filepath.Abs(dir); err != nil {
			return nil, err
		}
		if f.root, err = os.OpenRoot(f.dir); err != nil {
			return nil, err
		}
	}
	dialer := &net.Dialer{Timeout: maxTime, Control: f.control}
	f.client = &http.Client{
		Timeout: maxTime,
		Transport: &http.Transport{ // without a proxy, which would dial what it is told
			DialContext: dialer.DialContext, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
			TLSHandshakeTimeout: maxTime / 2,
		},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return fmt.Errorf("more than %d redirects", maxRedirects)
			}
			if within, ok := r.Context().Value(withinKey{}).(func(*url.URL) error); ok {
				if err := within(r.URL); err != nil {
					return err
				}
			}
			return f.allowed(r.URL)
		},
	}
	return f, nil
}

type withinKey struct{}

// Within has Fetch ask about all that a URL redirects to, beside what may be asked anyway.
func Within(ctx context.Context, allowed func(*url.URL) error) context.Context {
	return context.WithValue(ctx, withinKey{}, allowed)
}

// Close releases the folder.
func (f *Fetcher) Close() error {
	if f.root == nil {
		return nil
	}
	return f.root.Close()
}

// allowed returns an error for URLs of what may not be asked, whatever their addresses are.
func (f *Fetcher) allowed(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("a URL of %.20q; want http or https", u.Scheme)
	case u.Hostname() == "":
		return errors.New("a URL without a host")
	case f.hosts == nil, slices.Contains(f.hosts, strings.ToLower(u.Host)), slices.Contains(f.hosts, strings.ToLower(u.Hostname())):
		return nil
	}
	return fmt.Errorf("the host %.100q is none of those that this server may ask", u.Host)
}

var errPrivate = errors.New("its address is not a public one")

// control checks the address of a connection, which a name may have got just now.
func (f *Fetcher) control(_, address string, _ syscall.RawConn) error {
	if f.hosts != nil {
		return nil
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil || !public(to.Addr()) {
		return errPrivate
	}
	return nil
}

// prefixes returns networks.
func prefixes(all string) (list []netip.Prefix) {
	for one := range strings.FieldsSeq(all) {
		list = append(list, netip.MustParsePrefix(one))
	}
	return list
}

// Networks whose addresses are not, or not only, those of one host of the internet (IANA's registries of special addresses).
var (
	special4 = prefixes("0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 " +
		"192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 " +
		"224.0.0.0/4 240.0.0.0/4")
	global6  = netip.MustParsePrefix("2000::/3") // all else, such as NAT64, unique local and mapped ones, is special
	special6 = prefixes("2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20")
)

// public reports whether an address is that of a host of the internet.
func public(a netip.Addr) bool {
	within := func(list []netip.Prefix) bool {
		return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	if a.Zone() != "" {
		return false
	}
	if a.Is4() {
		return !within(special4)
	}
	return global6.Contains(a) && !within(special6)
}

// A File is what a URL names.
type File struct {
	Data []byte
	Name string // the last part of its path; empty: it has none
	Type string // the media type that it was sent with; empty: none was
}

// Fetch returns the file of a URL: a picture or a sound, or with documents anything that may be one. Errors are for who asked:
// they do not tell what else is there.
func (f *Fetcher) Fetch(ctx context.Context, address string, documents bool) (*File, error) {
	if len(address) > MaxURL {
		return nil, errors.New("a URL of more than 8 KiB")
	}
	if rest, ok := cutScheme(address, "file://"); ok {
		data, err := f.file(rest)
		return &File{Data: data, Name: nameOf(rest)}, err
	}
	if f.off {
		return nil, errors.New("a URL, and this server fetches none, send the file in base64; start it with --media-url public")
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("a URL that is none")
	}
	if err := f.allowed(u); err != nil {
		return nil, err
	}
	file, err := f.get(ctx, u, documents)
	if err != nil {
		return nil, fmt.Errorf("%.100s: %w", u.Host, plain(err))
	}
	file.Name = nameOf(u.Path)
	return file, nil
}

// nameOf is the last part of a path.
func nameOf(at string) string {
	name := path.Base(at)
	if name == "." || name == "/" {
		return ""
	}
	return name
}

func cutScheme(address, scheme string) (string, bool) {
	if len(address) < len(scheme) || !strings.EqualFold(address[:len(scheme)], scheme) {
		return "", false
	}
	return address[len(scheme):], true
}

// plain returns an error without addresses.
func plain(err error) error {
	var deep *url.Error
	switch {
	case errors.Is(err, errPrivate):
		return errPrivate
	case errors.Is(err, context.DeadlineExceeded), os.IsTimeout(err):
		return fmt.Errorf("not there within %v", maxTime)
	case errors.As(err, new(*net.OpError)), errors.As(err, new(*net.DNSError)):
		return errors.New("it cannot be reached")
	case errors.As(err, &deep):
		return deep.Err
	}
	return err
}

func (f *Fetcher) get(ctx context.Context, u *url.URL, documents bool) (*File, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	accept, want := "image/*, audio/*", "a picture or a sound"
	if documents {
		accept, want = "application/*, text/*, image/*, audio/*", "a document, a picture or a sound"
	}
	r.Header.Set("Accept", accept)
	r.Header.Set("User-Agent", "quern")
	answer, err := f.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers with status %d", answer.StatusCode)
	}
	sent := answer.Header.Get("Content-Type")
	kind, _, _ := mime.ParseMediaType(sent)
	switch top, _, _ := strings.Cut(kind, "/"); {
	case top == "image", top == "audio", kind == "application/octet-stream", kind == "binary/octet-stream":
	case documents && (top == "text" || top == "application"):
	default:
		return nil, fmt.Errorf("it sends %.60q; want %s", kind, want)
	}
	data, err := limited(answer.Body, answer.ContentLength)
	return &File{Data: data, Type: sent}, err
}

var errLong = fmt.Errorf("more than %d MiB", MaxBytes>>20)

// limited reads a file of a length that may be known, or negative.
func limited(r io.Reader, length int64) ([]byte, error) {
	if length > MaxBytes {
		return nil, errLong
	}
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err == nil && len(data) > MaxBytes {
		err = errLong
	}
	return data, err
}

// file returns a file of the folder, by its path below it, or by an absolute one that is.
func (f *Fetcher) file(name string) ([]byte, error) {
	if f.root == nil {
		return nil, errors.New("a URL of a file, and this server reads none, send the file in base64; start it with --media-path FOLDER")
	}
	name, err := url.PathUnescape(strings.TrimPrefix(name, "localhost/"))
	if err != nil {
		return nil, errors.New("a URL that is none")
	}
	if filepath.IsAbs(name) {
		if below, err := filepath.Rel(f.dir, name); err == nil && filepath.IsLocal(below) {
			name = below
		}
	}
	name = strings.TrimLeft(name, "/")
	const gone = "there is no such file"
	info, err := f.root.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil, errors.New(gone)
	}
	file, err := f.root.Open(name)
	if err != nil {
		return nil, errors.New(gone)
	}
	defer file.Close()
	return limited(file, info.Size())
}
