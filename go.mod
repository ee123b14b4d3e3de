module github.com/quern-llm/quern

go 1.26
