package jinja

// An expression's nodes.
type (
	expr any

	constant struct{ value any }
	name     struct{ name string }
	listExpr struct {
		items []expr
		tuple bool
	}
	dictExpr  struct{ keys, values []expr }
	condExpr  struct{ test, then, otherwise expr } // otherwise may be nil
	notExpr   struct{ x expr }
	signExpr  struct{ x expr } // minus
	plusExpr  struct{ x expr }
	logicExpr struct { // x and y, x or y
		or   bool
		x, y expr
	}
	binaryExpr struct {
		op   string
		x, y expr
	}
	concatExpr  struct{ items []expr }
	compareExpr struct { // x op y op z
		x    expr
		ops  []string
		with []expr
	}
	attrExpr struct {
		x    expr
		name string
	}
	itemExpr  struct{ x, index expr }
	sliceExpr struct{ x, start, stop, step expr } // those left out are nil
	callExpr  struct {
		fn   expr
		args arguments
		line int
	}
	filterExpr struct {
		x    expr // nil for the text of a block
		name string
		fn   builtin
		args arguments
	}
	testExpr struct {
		x    expr
		fn   builtin
		args arguments
		not  bool
	}
)

type arguments struct {
	pos          []expr
	names        []string
	named        []expr
	star, starry expr // *x, **x; nil without
}

// A template's statements.
type (
	stmt any

	dataStmt   struct{ text string }
	outputStmt struct {
		x    expr
		line int
	}
	ifStmt struct {
		tests     []expr
		bodies    [][]stmt
		otherwise []stmt
		line      int
	}
	forStmt struct {
		target    target
		iter      expr
		filter    expr // nil without
		recursive bool
		body      []stmt
		otherwise []stmt
		line      int
	}
	setStmt struct {
		target target
		x      expr
		line   int
	}
	setBlockStmt struct {
		target target
		filter expr // nil without
		body   []stmt
		line   int
	}
	filterStmt struct {
		filter expr
		body   []stmt
		line   int
	}
	withStmt struct {
		targets []target
		values  []expr
		body    []stmt
		line    int
	}
	macroStmt struct{ *macroDef }
	callStmt  struct {
		call   expr
		caller *macroDef
		line   int
	}
	groupStmt    struct{ body []stmt } // generation: a scope and no more
	breakStmt    struct{}
	continueStmt struct{}
)

type macroDef struct {
	name     string
	params   []string
	defaults []expr // of the last of the params
	body     []stmt
}

// target is what an assignment names: a variable, an attribute of a
// namespace, or several of them.
type target struct {
	name, attr string
	several    []target
}
