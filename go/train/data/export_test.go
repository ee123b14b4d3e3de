package data

// MostRendered is for tests.
var MostRendered = &mostRendered
