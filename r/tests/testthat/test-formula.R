read <- function(formula) curator:::read_formula(formula)$text

test_that("formulas of R are those of the library", {
  knots <- c(60, 70)
  expect_equal(read(log(y + 1) ~ poly(age, 3) * sex - 1), "log(y + 1) ~ poly(age, 3) * sex - 1")
  expect_equal(read(y ~ splines::ns(x, df = 3) + bs(x, knots = knots)), "y ~ ns(x, df=3) + bs(x, knots=[60, 70])")
  expect_equal(read(y ~ relevel(factor(g), ref = "it's") + factor(h)), "y ~ C(g, Treatment('it\\'s')) + C(h)")
  expect_equal(read(death == 1 ~ I(x^2) + `a b`), "I(death == 1) ~ I(x ** 2) + `a b`")
  expect_equal(read(y ~ (a + b)^2 + a:c), "y ~ (a + b)**2 + a : c")
  expect_equal(read(y ~ cut(age, c(-Inf, 60, 70, Inf), right = FALSE)), "y ~ cut(age, [60, 70])")
  expect_equal(read(y ~ I(sex %in% c("F", "X") & !is.na(z))), "y ~ I(((sex in ['F', 'X']) and (not (missing(z)))))")
  expect_equal(read(y ~ log(x, 2) + .), "y ~ log2(x) + .")
  expect_equal(curator:::read_formula(y ~ a + offset(log(t)) + offset(u))$offset, "log(t) + u")
  expect_equal(curator:::read_expression(~ sex == "F" | age >= 60, "where"), "((sex == 'F') or (age >= 60))")
})

test_that("numbers and texts of R are put in, and columns go before them", {
  k <- 30
  who <- "F"
  age <- 1
  columns <- function() c("age", "sex")
  expect_equal(curator:::read_formula(y ~ I(age - k) + age, columns)$text, "y ~ I(age - 30) + age")
  expect_equal(curator:::read_expression(~ age > k & sex == who, "where", columns), "((age > 30) and (sex == 'F'))")
  expect_equal(curator:::read_formula(y ~ k + ns(age, df = 3), columns)$text, "y ~ k + ns(age, df=3)")
})

test_that("what is not possible is said with what is", {
  expect_error(read(y ~ age^2), "poly(age, 2)", fixed = TRUE, class = "curator_formula")
  expect_error(read(y ~ s(age)), "ns(x, df = 4)", fixed = TRUE, class = "curator_formula")
  expect_error(read(y ~ age + (1 | g)), "random effects", class = "curator_formula")
  expect_error(read(y ~ a / b), "a + a:b", fixed = TRUE, class = "curator_formula")
  expect_error(read(y ~ cut(age, 3)), "right = FALSE", class = "curator_formula")
  expect_error(read(y ~ poly(age, 2, raw = TRUE)), "without raw", class = "curator_formula")
  expect_error(read(y ~ sin(age)), "a curator computes", class = "curator_formula")
  expect_error(read(y ~ log(age, 3)), "log10(x)", fixed = TRUE, class = "curator_formula")
  expect_error(read(y ~ ns(age, df = 3, intercept = TRUE)), "ns takes x, df, knots", class = "curator_formula")
  expect_error(read(~age), "with a target", class = "curator_formula")
  expect_error(read(y ~ offset(t)), "that explains", class = "curator_formula")
})

test_that("families are those of the library, with their links", {
  name <- curator:::family_name
  expect_equal(c(name("poisson"), name(binomial), name(gaussian())), c("poisson", "binomial", "gaussian"))
  expect_error(name(binomial("probit")), "logit, not probit", class = "curator_family")
  expect_error(name(quasipoisson), "robust", class = "curator_family")
})
