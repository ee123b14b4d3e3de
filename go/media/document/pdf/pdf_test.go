package pdf

import (
	"bytes"
	"compress/zlib"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the texts of testdata anew")

// limits are those of tests: of the time there is none.
func limits() Limits {
	left := 32 << 20
	return Limits{Pages: 100, Text: 1 << 20, Unpack: func(n int) error {
		if left -= n; left < 0 {
			return errFull
		}
		return nil
	}}
}

var errFull = errors.New("full")

func numbered(pages []string) string {
	var b strings.Builder
	for i, p := range pages {
		fmt.Fprintf(&b, "--- %d\n%s\n", i+1, p)
	}
	return b.String()
}

// Files of other programs, which ReportLab, Chromium and qpdf wrote, have their text.
func TestFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.pdf")
	if err != nil || len(files) < 7 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pages, err := Text(data, limits())
		got := numbered(pages)
		if err != nil {
			got = err.Error() + "\n"
		}
		golden := strings.TrimSuffix(file, ".pdf") + ".txt"
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: got\n%s, want\n%s", file, got, want)
		}
	}
}

// made returns a file of objects, which are numbered from 1. The first is the catalog.
func made(objects ...string) []byte {
	var b bytes.Buffer
	b.WriteString("%PDF-1.7\n")
	for i, o := range objects {
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	b.WriteString("trailer << /Root 1 0 R >>\n%%EOF")
	return b.Bytes()
}

// streamed returns a stream.
func streamed(dict, content string) string {
	return fmt.Sprintf("<< %s /Length %d >>\nstream\n%s\nendstream", dict, len(content), content)
}

func deflated(content string) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write([]byte(content))
	_ = z.Close()
	return b.String()
}

const (
	catalog = "<< /Type /Catalog /Pages 2 0 R >>"
	onePage = "<< /Type /Pages /Kids [3 0 R] /Count 1 >>"
	helv    = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
)

// shows is a file with a page of some content; its font F is an object, and more may follow from the sixth on.
func shows(content, font string, more ...string) []byte {
	page := "<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /Font << /F 5 0 R >> /XObject << /X 6 0 R >> >> /Annots [7 0 R] >>"
	return made(append([]string{catalog, onePage, page, streamed("", content), font}, more...)...)
}

func TestContent(t *testing.T) {
	t.Parallel()
	const begin = "BT /F 10 Tf 72 700 Td "
	cmap := "1 begincodespacerange <0000> <FFFF> endcodespacerange 2 beginbfchar <0001> <0048> <0002> <D83DDE00> endbfchar 2 beginbfrange <0003> <0005> <0061> <0006> <0007> [<0066006C> <0078>] endbfrange"
	wide := "<< /Type /Font /Subtype /Type0 /Encoding /Identity-H /ToUnicode 6 0 R /DescendantFonts [<< /DW 500 /W [1 [700 600] 3 5 550] >>] >>"
	for _, c := range []struct {
		name, content, font string
		more                []string
		want                string
	}{
		{"a string", begin + "(Hello \\(you\\)\\041) Tj ET", helv, nil, "Hello (you)!"},
		{"gaps and kerns", begin + "[(Hel) 20 (lo) -400 (you)] TJ ET", helv, nil, "Hello you"},
		{"lines", begin + "(one) Tj 0 -12 Td (two) Tj 12 TL T* (three) Tj (four) ' 0 -40 Td (five) Tj ET", helv, nil, "one\ntwo\nthree\nfour\n\nfive"},
		{"words apart", begin + "(one) Tj 40 0 Td (two) Tj ET", helv, nil, "one two"},
		{"an index stays on its line", begin + "(x) Tj 3 Ts (2) Tj ET", helv, nil, "x2"},
		{"turned", "q 0 1 -1 0 300 100 cm " + begin + "(up) Tj 30 0 Td (there) Tj ET Q", helv, nil, "up there"},
		{"WinAnsi", begin + "(\\223caf\\351\\224 \\200) Tj ET", "<< /Type /Font /Subtype /TrueType /BaseFont /X /Encoding /WinAnsiEncoding >>", nil, "“café” €"},
		{"names of glyphs", begin + "(abcdefg) Tj ET", "<< /Type /Font /Subtype /Type1 /BaseFont /X /Encoding << /Differences [97 /fi /Zcaron /uni4E2D /afii10017 /alphatonos 102 /a.sc /g#30nothing] >> >>", nil, "fiŽ中Аάa\uFFFD"},
		{"its own widths", begin + "(ab) Tj 22 0 Td (c) Tj ET", "<< /Type /Font /Subtype /Type1 /BaseFont /X /FirstChar 97 /Widths [1000 1000 1000] >>", nil, "ab c"},
		{"a wide font", begin + "<0001000300040005> Tj <000200060007> Tj ET", wide, []string{streamed("", cmap)}, "Habc😀flx"},
		{"UTF-16 by its name", begin + "<4E2D6587> Tj ET", "<< /Type /Font /Subtype /Type0 /Encoding /UniGB-UTF16-H /DescendantFonts [<< >>] >>", nil, "中文"},
		{"a form", "/X Do", helv, []string{streamed("/Type /XObject /Subtype /Form /Resources << /Font << /F 5 0 R >> >>", begin+"(in it) Tj ET")}, "in it"},
		{"a picture within", begin + "(a) Tj ET BI /W 1 /H 1 ID \x00(EI)\x01 EI " + begin + "(b) Tj ET", helv, nil, "ab"},
		{"a text in its place", begin + "/Span << /ActualText (\\376\\377\\000f\\000i) >> BDC (xy) Tj EMC (sh) Tj ET", helv, nil, "fish"},
		{"a field", begin + "(Name:) Tj ET", helv, []string{"null", "<< /Subtype /Widget /Rect [110 698 200 710] /AP << /N 8 0 R >> >>", streamed("/Subtype /Form /Resources << /Font << /F 5 0 R >> >>", "BT /F 10 Tf 2 2 Td (Tom) Tj ET")}, "Name: Tom"},
		{"damaged operators", begin + "(a) Tj >> ] ) [ (b) TJ ET", helv, nil, "a"},
	} {
		pages, err := Text(shows(c.content, c.font, c.more...), limits())
		if err != nil || len(pages) != 1 || pages[0] != c.want {
			t.Errorf("%s: %q, %v, want %q", c.name, pages, err, c.want)
		}
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	const content = "BT /F 10 Tf 72 700 Td (Hello) Tj ET"
	rows := "" // of PNG, each of which says that it is as it is, or the difference to the row above
	for i := 0; i < len(content); i += 5 {
		if i == 0 {
			rows += "\x00" + content[:5]
			continue
		}
		rows += "\x02"
		for k := i; k < i+5; k++ {
			rows += string([]byte{content[k] - content[k-5]})
		}
	}
	for filter, data := range map[string]string{
		"/FlateDecode":                   deflated(content),
		"[/ASCIIHexDecode /FlateDecode]": fmt.Sprintf("%x>", deflated(content)),
		"/RunLengthDecode":               string([]byte{byte(len(content) - 1)}) + content + "\x80",
		"/FlateDecode /DecodeParms << /Predictor 12 /Columns 5 >>": deflated(rows),
		"/FlateDecode /X": deflated(content)[:len(deflated(content))-4], // without its sum
		"/JBIG2Decode":    content,
	} {
		page := "<< /Type /Page /Contents 4 0 R /Resources << /Font << /F 5 0 R >> >> >>"
		pages, err := Text(made(catalog, onePage, page, streamed("/Filter "+filter, data), helv), limits())
		want := "Hello"
		if strings.Contains(filter, "JBIG2") {
			want = ""
		}
		if err != nil || pages[0] != want {
			t.Errorf("%s: %q, %v", filter, pages, err)
		}
	}
	f := &file{limits: limits()}
	for filter, data := range map[name]string{"ASCII85Decode": "<~87cURD]i,\"Ebo80~>", "LZWDecode": "\x80\x0b\x60\x50\x22\x0c\x0c\x85\x01"} {
		want := map[name]string{"ASCII85Decode": "Hello World!", "LZWDecode": "-----A---B"}[filter]
		if got, err := f.decode(&stream{dict: dict{"Filter": filter}, raw: []byte(data)}); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", filter, got, err)
		}
	}
}

// Files that are damaged have the text that is left.
func TestDamaged(t *testing.T) {
	t.Parallel()
	const content = "BT /F 10 Tf 72 700 Td (Hello) Tj ET"
	good := string(shows(content, helv))
	for what, data := range map[string]string{
		"no trailer":           good[:strings.Index(good, "trailer")],
		"a wrong length":       strings.Replace(good, fmt.Sprint("/Length ", len(content)), "/Length 3", 1),
		"a length of nowhere":  strings.Replace(good, fmt.Sprint("/Length ", len(content)), "/Length 99 0 R", 1),
		"no end of an object":  strings.Replace(good, "endobj", "", 3),
		"bytes before":         strings.Repeat("x", 900) + good,
		"changed by an update": strings.Replace(good, "Hello", "Other", 1) + "\n4 0 obj\n" + streamed("", content) + "\nendobj\n",
	} {
		pages, err := Text([]byte(data), limits())
		if err != nil || len(pages) != 1 || pages[0] != "Hello" {
			t.Errorf("%s: %q, %v", what, pages, err)
		}
	}
}

// What is made of files counts, beside what is unpacked: small files may make much of it.
func TestCounted(t *testing.T) {
	t.Parallel()
	many := func(n int) string { return "[" + strings.Repeat("<</a 1>>", n) + "] " }
	var head, kids strings.Builder
	for i := range 40 {
		fmt.Fprintf(&head, "%d 0 ", 10+i)
		fmt.Fprintf(&kids, "%d 0 R ", 10+i)
	}
	const asked = "/Type /ObjStm /Filter /FlateDecode /N 40 /First "
	shared := streamed(asked+fmt.Sprint(head.Len()), deflated(head.String()+"<< /Type /Page /X "+many(1<<14)+">>"))
	small := streamed(asked+fmt.Sprint(head.Len()), deflated(head.String()+"<< /Type /Page /X "+many(1<<10)+">>"))
	font := func(cmap string) []byte {
		return shows("BT /F 10 Tf <0041> Tj ET", "<< /Subtype /Type0 /ToUnicode 6 0 R >>", streamed("", cmap+"1 beginbfchar <0041> <0041> endbfchar"))
	}
	direct := "<< /Type /Page /Contents 4 0 R /Resources << /Font << /F << /Subtype /Type0 /ToUnicode 6 0 R >> >> >> >>"
	chars := "1 beginbfchar " + strings.Repeat("<0041> <0041> ", 1000) + "endbfchar "
	kinds := ""
	for i := range 1000 {
		kinds += fmt.Sprintf("<%04x> <0041> ", i)
	}
	for what, c := range map[string]struct {
		data  []byte
		want  string
		least int // bytes that are counted
	}{
		"pages of one dictionary":       {made(catalog, "<< /Kids ["+kids.String()+"] >>", shared), "full", 0},
		"pages of a small one":          {made(catalog, "<< /Kids ["+kids.String()+"] >>", small), "", 40 * perObject},
		"pages that stand in the list":  {made(catalog, "<< /Kids ["+strings.Repeat("<< /X "+many(256)+">> ", 90)+"] >>"), "", 90 * 256 * perDict},
		"resources in the list":         {made(catalog, "<< /Resources << /X "+many(2000)+">> /Kids [<<>>] >>"), "", 2000 * perDict},
		"operands":                      {shows(strings.Repeat(many(1<<13)+"n ", 10), helv), "full", 0},
		"operands of one operator":      {shows(strings.Repeat(many(1<<15), 3)+"BT /F 10 Tf (a) Tj ET", helv), "", 0},
		"operands of a map":             {font(strings.Repeat(many(1<<15), 3)), "its fonts do not say", 0},
		"fonts that stand in resources": {made(catalog, onePage, direct, streamed("", strings.Repeat("/F 1 Tf q ", 100)), "null", streamed("", "1 beginbfchar "+kinds+"endbfchar ")), "", 100 * 80 * 1000},
		"lists that hold themselves":    {made(catalog, "<< /Kids 3 0 R >>", "["+strings.Repeat("<< /Kids 3 0 R >> ", 8)+"]"), "no pages", 0},
		"lists that hold others twice":  {made(catalog, "<< /Kids 3 0 R >>", "[<< /Kids 4 0 R >> << /Kids 4 0 R >>]", "[<< /Type /Page >> << /Type /Page >>]"), "", 0},
		"many characters":               {font(chars), "", 0},
	} {
		left, counted := limits(), 0
		pages, err := Text(c.data, Limits{Pages: left.Pages, Text: left.Text, Unpack: func(n int) error {
			counted += n
			return left.Unpack(n)
		}})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", what, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %d pages, %v, want %s", what, len(pages), err, c.want)
		case counted < c.least:
			t.Errorf("%s: %d bytes are counted, want %d", what, counted, c.least)
		}
	}
}

// Within a string, and where operators stand alone, it is seen that nobody waits.
func TestAsked(t *testing.T) {
	t.Parallel()
	for what, content := range map[string]string{
		"glyphs":    "/Span<</ActualText(a)>>BDC BT /F 10 Tf <" + strings.Repeat("41", 50_000) + "> Tj ET EMC",
		"a list":    "/Span<</ActualText(a)>>BDC BT /F 10 Tf [" + strings.Repeat("(A)", 50_000) + "] TJ ET EMC",
		"operators": strings.Repeat("1 w ", 50_000),
	} {
		asked := 0
		l := limits()
		l.Unpack = func(int) error { asked++; return nil }
		if _, err := Text(shows(content, helv), l); err != nil || asked < 50_000/tickEvery {
			t.Errorf("%s: asked %d times, %v", what, asked, err)
		}
		most := asked - 50_000/tickEvery/2
		asked = 0
		l.Unpack = func(int) error {
			if asked++; asked >= most {
				return errFull
			}
			return nil
		}
		if _, err := Text(shows(content, helv), l); !errors.Is(err, errFull) || asked != most {
			t.Errorf("%s: asked %d times, want %d, and %v", what, asked, most, err)
		}
	}
}

// Ranges that are apart say what the last of those that begin before a number says, if it is in it.
func TestRanges(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		all := make(ranges[int], r.IntN(8))
		for i := range all {
			low := r.IntN(20)
			all[i] = span[int]{low: low, high: low + r.IntN(12) - 1, says: i}
		}
		apart := slices.Clone(all).apart()
		if len(apart) > 2*len(all) {
			t.Fatalf("%v: %d apart", all, len(apart))
		}
		for n := -1; n < 40; n++ {
			best := -1
			for i, s := range all {
				if n >= s.low && n <= s.high && (best < 0 || s.low > all[best].low || s.low == all[best].low && s.high < all[best].high) {
					best = i
				}
			}
			says, after, ok := apart.at(n)
			if ok != (best >= 0) || ok && (says != best || after != n-all[best].low) {
				t.Fatalf("%v: at %d %d after %d, %t, want %d", all, n, says, after, ok, best)
			}
		}
	}
}

// Files that are made to take much do not.
func TestHostile(t *testing.T) {
	t.Parallel()
	page := func(content string) []byte { return shows(content, helv) }
	form := streamed("/Subtype /Form /Resources << /XObject << /X 6 0 R >> >>", "/X Do /X Do /X Do /X Do")
	zeros := deflated(strings.Repeat("\x00", 40<<20))
	for what, c := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":               {[]byte("%PDF-1.7"), "no pages"},
		"a page tree in a ring": {made(catalog, "<< /Kids [2 0 R 1 0 R 2 0 R] >>"), ""},
		"references in a ring":  {made(catalog, "3 0 R", "2 0 R"), "no pages"},
		"pages in a ring":       {made("<< /Type /Catalog /Pages 1 0 R >>"), ""},
		"forms within forms":    {shows("/X Do", helv, form), "full"},
		"a bomb":                {made(catalog, onePage, "<< /Contents 4 0 R >>", streamed("/Filter /FlateDecode", zeros)), "full"},
		"a bomb in a bomb":      {made(catalog, onePage, "<< /Contents 4 0 R >>", streamed("/Filter [/FlateDecode /FlateDecode]", deflated(zeros))), "full"},
		"a bomb of objects":     {made(catalog, onePage, streamed("/Type /ObjStm /N 100000000 /First 10 /Filter /FlateDecode", zeros)), "full"},
		"many filters":          {made(catalog, onePage, "<< /Contents 4 0 R >>", streamed("/Filter ["+strings.Repeat("/FlateDecode ", 100)+"]", zeros)), "more than 8 filters"},
		"deep arrays":           {page(strings.Repeat("[", 1<<20)), ""},
		"deep dictionaries":     {made(strings.Repeat("<</A", 1<<18)), "no pages"},
		"many pages":            {made(catalog, "<< /Kids ["+strings.Repeat("<< /Type /Page >> ", 200)+"] >>"), "more than 100 pages"},
		"many objects":          {bytes.Repeat([]byte("1 0 obj\n"), 1<<19), "full"},
		"open dictionaries":     {bytes.Repeat([]byte("1 0 obj<<"), 1<<12), "no pages"},
		"a wide row":            {made(catalog, onePage, "<< /Contents 4 0 R >>", streamed("/Filter /FlateDecode /DecodeParms << /Predictor 15 /Columns 1e300 /Colors 1e9 >>", deflated("x"))), ""},
		"wide widths":           {shows("BT /F 10 Tf (a) Tj ET", "<< /Subtype /Type0 /Encoding /Identity-H /DescendantFonts [<< /W ["+strings.Repeat("0 2147483646 5 ", 1000)+"] >>] >>"), "its fonts do not say"},
		"a wide range":          {shows("BT /F 10 Tf <0041> Tj ET", "<< /Subtype /Type0 /ToUnicode 6 0 R >>", streamed("", strings.Repeat("1 beginbfrange <00000000> <FFFFFFFF> <0041> endbfrange ", 100))), "its fonts do not say"},
		"long names":            {page("/" + strings.Repeat("#41", 1<<20) + " Do"), ""},
		"states":                {page(strings.Repeat("q ", 1<<18)), ""},
		"much text":             {page("BT /F 10 Tf (" + strings.Repeat("a", 2<<20) + ") Tj ET"), "too much text"},
		"no numbers":            {page("BT /F 1e999 Tf 1e308 1e308 Td (a) Tj 1e308 0 Td (b) Tj ET"), ""},
		"another handler":       {append(made(catalog), "trailer << /Root 1 0 R /Encrypt << /Filter /Other >> >>"...), "encrypted in a way"},
		"no keys":               {append(made(catalog), "trailer << /Root 1 0 R /Encrypt << /Filter /Standard /V 2 /R 3 >> >>"...), "damaged: its encryption"},
	} {
		pages, err := Text(c.data, limits())
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", what, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %d pages, %v, want %s", what, len(pages), err, c.want)
		}
	}
}

// A stream of an encrypted file may be in the clear.
func TestInClear(t *testing.T) {
	t.Parallel()
	f := &file{limits: limits(), lock: &lock{key: []byte("12345"), ofData: byRC4}}
	const content = "as it is"
	for _, c := range []struct {
		about dict
		plain bool
	}{
		{dict{"Filter": name("Crypt")}, true},
		{dict{"Filter": array{name("Crypt")}, "DecodeParms": array{dict{"Name": name("Identity")}}}, true},
		{dict{"Filter": array{name("Crypt")}, "DecodeParms": array{dict{"Name": name("StdCF")}}}, false},
		{dict{}, false},
	} {
		got, err := f.decode(&stream{dict: c.about, raw: []byte(content)})
		if err != nil || (string(got) == content) != c.plain {
			t.Errorf("%v: %q, %v", c.about, got, err)
		}
	}
}

// Whatever a file is, reading it ends, without a panic.
func FuzzText(f *testing.F) {
	files, err := filepath.Glob("testdata/*.pdf")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add(shows("BT /F 10 Tf 72 700 Td [(Hello) -300 (you)] TJ ET", helv))
	f.Fuzz(func(t *testing.T, data []byte) {
		pages, err := Text(data, limits())
		if err != nil {
			return
		}
		n := 0
		for _, p := range pages {
			n += len(p)
		}
		if len(pages) > limits().Pages || n > limits().Text {
			t.Errorf("%d pages of %d bytes", len(pages), n)
		}
	})
}
