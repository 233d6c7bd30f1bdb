# Perl with its own modules: API=http://127.0.0.1:8787 KEY=saq_… perl http.pl
use HTTP::Tiny; use JSON::PP;
my $answer = HTTP::Tiny->new(timeout => 90)->post("$ENV{API}/v1/parents/perl-script/tasks?wait=60", {
  headers => { "Authorization" => "Bearer $ENV{KEY}", "Content-Type" => "application/json" },
  content => encode_json({ prompt => "Which testing framework does this project use?" }),
});
die "$answer->{status} $answer->{content}" unless $answer->{success};
print decode_json($answer->{content})->{summary}, "\n";
