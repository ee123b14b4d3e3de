package convert

// OfWhisperCpp is for tests that open such files as models.
var OfWhisperCpp = ofWhisperCpp
